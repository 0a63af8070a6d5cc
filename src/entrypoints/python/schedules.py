"""Schedules that code makes, changes and deletes while it runs.

Their rows are of no source, as those that are made over HTTP: what `apply` makes of an app leaves
them alone, and people see, pause and edit them. A worker finds their task by its number.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Unpack

import attrs

from cronhare.application.administration.changing.schedules import (
    CannotEdit,
    EditedMeanwhile,
    NameTaken,
)
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.reading import Fault, Invalid

from .client import client_of
from .words import AlertWords, ScheduleWords, When

if TYPE_CHECKING:
    from cronhare.application.administration.views.schedules import ScheduleView
    from cronhare.domain.schedules.draft import ScheduleDraft
    from cronhare.ports.schedules import StoredSchedule

    from .app import App
    from .tasks import Call


class AppSchedules:
    """The schedules of an app's tasks that are in no file, and in no app's code.

    Each method may raise `LedgerUnavailable`, and `NotFound` for a name that is not there.
    """

    def __init__(self, app: "App") -> None:
        self._app = app

    def put(
        self,
        name: str,
        call: "Call[Any]",
        when: When | None = None,
        *,
        on: object | None = None,
        if_match: "ScheduleView | None" = None,
        **words: Unpack[ScheduleWords],
    ) -> None:
        """Have a schedule with this name say this and nothing else; said again it changes nothing.

        The call is of a task of this app. A pause stays, and so does what an operator has enabled
        or disabled, unless `status` is said. With *if_match*, as `get` gave it, it is changed only
        if it is still so. *on* is as in `Call.enqueue`: it is there with the commit.

        Raises:
            Invalid: words that cannot be; all faults at once.
            CannotEdit: the name is a file's or an app's.
            ValueError: the task is not this app's.
            EditedMeanwhile: it is not what was seen.
        """
        client = client_of(self._app)
        said = {"manual": True, **words} if when is None else words
        _refuse_of_files(said)
        [draft] = client.drafts(self._app, {name: self._app.schedule_table(call, when, said)})
        draft = attrs.evolve(draft, task_name=None)

        def change(_: "StoredSchedule", old: "ScheduleDraft") -> "ScheduleDraft":
            return draft if "status" in words else attrs.evolve(draft, status=old.status)

        def put() -> None:
            stored = next(iter(container.schedules().schedules([name])), None)
            if stored is not None and stored.source is not None:
                raise CannotEdit(f"schedule {name} is of {stored.source}: change it there")
            if if_match and (stored is None or stored.updated_at != if_match.updated_at):
                raise EditedMeanwhile(if_match)
            old = stored and stored.draft
            if taking_part is not None:
                store, now = container.enqueue_store(), container.ledger_time().now()
                store.check(taking_part)
                new = change(stored, old) if stored and old else draft
                if new != old:
                    store.put(new, now=now, on=taking_part)
            elif stored is None:
                container.schedule_editor().create(draft, actor=client.actor)
            else:  # of a broken row nothing is kept
                container.schedule_editor().edit(
                    stored.id, change if old else draft, seen=_seen(if_match), actor=client.actor
                )

        container, taking_part = client.container, client.part_of(on)
        try:
            put()
        except (NameTaken, NotFound):  # another process has made or deleted it meanwhile
            if if_match is not None:
                raise
            put()

    def get(self, name: str) -> "ScheduleView":
        """Show a schedule, with its last and its next run."""
        return client_of(self._app).container.queries().schedule(name)

    def list(self) -> "Sequence[ScheduleView]":
        """List the schedules of this app's tasks that are of no source, by name."""
        client, tasks = client_of(self._app), self._app.tasks.values()
        own = client.drafts(self._app, {task.own_schedule: task.own_table for task in tasks})
        refs = {draft.task for draft in own}
        found = [
            each
            for each in client.container.schedules().schedules()
            if each.source is None and each.draft is not None and each.draft.task in refs
        ]
        return client.container.schedule_views().of(found)

    def pause(self, name: str, *, until: datetime | None = None, reason: str | None = None) -> None:
        """Let its due instants be skipped, until a time or a resume."""
        client = client_of(self._app)
        client.container.administrator().pause(
            {name: until},
            reason=reason,
            by=client.actor.name,
            actor=client.actor,
        )

    def resume(self, name: str) -> None:
        """End its pause. What was due meanwhile is not run."""
        client = client_of(self._app)
        client.container.administrator().resume([name], actor=client.actor)

    def delete(
        self, name: str, *, if_match: "ScheduleView | None" = None, with_history: bool = False
    ) -> None:
        """Delete a schedule that has had no run, or *with_history* its runs as well.

        Raises:
            CannotEdit: it has runs, or one may still run, or it is of a file or of an app's code.
            EditedMeanwhile: it is not what was seen.
        """
        client, seen = client_of(self._app), _seen(if_match)
        client.container.schedule_editor().delete(
            self.get(name).id, seen=seen, actor=client.actor, with_history=with_history
        )


#: What only files and apps say of a schedule: workers read it there, and not in the ledger.
_OF_FILES: Final = AlertWords.__annotations__.keys() | {"on_start", "on_boot", "ping"}


def _refuse_of_files(said: Mapping[str, Any]) -> None:
    if named := sorted(_OF_FILES & said.keys()):
        why = (
            "only app.schedule(…) and jobs files can say that; of a schedule that is made while "
            "the app runs nobody would read it"
        )
        raise Invalid([Fault(", ".join(named), why)])


def _seen(view: "ScheduleView | None") -> "Callable[[StoredSchedule], bool] | None":
    return None if view is None else lambda stored: stored.updated_at == view.updated_at
