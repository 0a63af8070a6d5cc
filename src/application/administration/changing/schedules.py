"""Schedules that people create, edit and delete one by one, and runs of reports."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.audit import Action, AuditOutcome
from cronhare.domain.execution import Execution
from cronhare.domain.schedules.catalog import Catalog, reports_called
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskType
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import counted, listed, meant
from cronhare.ports.schedules import (
    KeptByRuns,
    Outdated,
    ScheduleListPort,
    ScheduleStorePort,
    StoredSchedule,
)

from .. import Refused
from ..audit import AuditTrail, differing, values_of
from ..jobs_file.difference import FileContent
from ..reading.lookup import NotFound, refuse_unknown_calendars
from ..reading.schedules import ScheduleViews
from ..views.schedules import ScheduleView
from .runs import Administrator, CannotRun

#: How the names begin under which reports are run on request. No schedule of a jobs file can have
#: such a name, as that has no slash.
REPORTS: Final = "reports/"


class NameTaken(Refused):
    """Another schedule has this name; nothing was changed."""


@attrs.frozen(kw_only=True)
class ReportDesk:
    """Runs a report now, by its name (S0.8 in docs/compatibility.md).

    Each run in the ledger belongs to a schedule. That of such runs is due at no time, and is made
    with the first of them.
    """

    _schedules: ScheduleStorePort
    _administrator: Administrator
    _catalog: Catalog
    _now: Callable[[], datetime]

    def generate(
        self, controller: str, *, params: str, actor: Actor, request: UUID | None
    ) -> Execution:
        """Begin a run; a *request* that is asked again is answered the run that it began."""
        name = self._schedule_of(self._report(controller))
        return self._administrator.run_now(name, params=params, actor=actor, request=request)

    def _report(self, controller: str) -> Task:
        found = reports_called(self._catalog, controller)
        if len(found) == 1:
            return found[0]
        if found:
            several = " and ".join(task.name for task in found)
            raise NotFound(f"{echo(controller)} is the name of {several}: say which one")
        names = sorted(task.name for task in self._catalog if task.ref.type == TaskType.REPORT)
        there = meant(controller, names) or f"there is {listed(names) or 'none'}"
        raise NotFound(f"there is no report {echo(controller)}; {there}")

    def _schedule_of(self, task: Task) -> str:
        """Give the schedule of a report's runs on request, as its file has the report by now."""
        new = ScheduleDraft(
            name=f"{REPORTS}{task.name}",
            task=task.ref,
            description=f"runs of {task.name} that were asked for",
            retry=task.policy.retry,
            retention=task.retention,
        )
        stored = self._schedules.schedules([new.name])
        if not stored and self._schedules.create(new, now=self._now()) is None:
            stored = self._schedules.schedules([new.name])  # another request was first
        for each in stored:
            if each.draft is None:
                raise CannotRun(f"schedule {each.name}, its row is broken: {each.problem}")
            wanted = attrs.evolve(
                each.draft, task=new.task, retry=new.retry, retention=new.retention
            )
            if wanted != each.draft:
                self._schedules.save([wanted], source=None, now=self._now())
        return new.name


_MEANWHILE: Final = "it was edited, or deleted, since it was read"

_HAS_HISTORY: Final = (
    "in the ledger: delete them as well (--with-history; over HTTP ?with_history=true), or disable "
    "it"
)
_STILL_RUN: Final = (
    "that may still run: `cronhare schedules disable {0}`, `cronhare executions cancel --schedule "
    "{0}`, `cronhare failed discard --schedule {0}`, then delete"
)


class EditedMeanwhile(ValueError):
    """The schedule is no more as it was when it was read; nothing was changed."""

    def __init__(self, current: ScheduleView) -> None:
        self.current = current
        super().__init__(f"schedule {current.name} was edited since it was read")


class CannotEdit(Refused):
    """An edit or a deletion is refused; nothing was changed."""


@attrs.frozen(kw_only=True)
class ScheduleEditor:
    """Creates schedules of no file, edits and deletes any.

    Where one says what was *seen*, that is asked about the row as it is: what it answers False to
    is not changed, and `EditedMeanwhile` is raised. None changes it in any case.
    """

    _edits: ScheduleListPort
    _schedules: ScheduleStorePort
    _views: ScheduleViews
    _trail: AuditTrail

    def create(self, draft: ScheduleDraft, *, actor: Actor, request: str | None = None) -> int:
        """Create a schedule of a draft without faults; answers its id.

        A *request*, its digest, may have been asked twice at a time: who comes second is answered
        what the first one made, whatever became of it. See `made_by`, too.
        """
        refuse_unknown_calendars(self._schedules, draft)
        with self._trail.change(actor, Action.CREATE, draft.name, after=values_of(draft)) as note:
            id_ = self._schedules.create(draft, now=note.at, request=request)
            if id_ is not None:
                return id_
            if request is not None:
                id_ = self._schedules.made_by(request, name=draft.name)
                if id_ is not None:
                    note.unless(changed=False)
                    return id_
            raise NameTaken(f"there is a schedule {draft.name} already")

    def made_by(self, request: str, *, name: str, actor: Actor) -> int | None:
        """Find the schedule that a request has made, to which it gave that *name*.

        It may have been edited since, and its task may be gone: a repetition is answered what the
        first one began.
        """
        id_ = self._schedules.made_by(request, name=name)
        if id_ is not None:
            with self._trail.change(actor, Action.CREATE, name) as note:
                note.unless(changed=False)
        return id_

    def edit(
        self,
        scheduler_id: int,
        change: Callable[[StoredSchedule, ScheduleDraft], ScheduleDraft] | ScheduleDraft,
        *,
        seen: Callable[[StoredSchedule], bool] | None,
        actor: Actor,
    ) -> ScheduleView:
        """Edit a schedule: *change* makes of the row, and what it says, what it is to say.

        Where it says so already nothing is edited. A draft is all of it, and mends a broken row.
        """
        stored = self._seen(scheduler_id, seen)
        while True:  # whoever edits meanwhile has got on
            if isinstance(change, ScheduleDraft):
                new = change
            elif stored.draft is None:
                raise CannotEdit(
                    f"schedule {stored.name} cannot be edited, its row is broken: "
                    f"{stored.problem}. Mend it in the table"
                )
            else:
                new = change(stored, stored.draft)
            if new == stored.draft:
                break
            refuse_unknown_calendars(self._schedules, new)
            was, becomes = differing(stored.draft, new)
            before = was if stored.draft else {"problem": stored.problem}
            with self._trail.change(
                actor, Action.EDIT, stored.name, before=before, after=becomes
            ) as note:
                answer = self._edits.edit(scheduler_id, new, seen=stored.updated_at, now=note.at)
                if not isinstance(answer, StoredSchedule):
                    note.outcome, note.problem = AuditOutcome.REFUSED, _MEANWHILE
            match answer:
                case None:
                    raise _not_found(scheduler_id)
                case Outdated(current) if seen is None:
                    stored = current
                case Outdated(current):
                    raise self._edited_meanwhile(current)
                case edited:
                    stored = edited
                    break
        return self._views.of_one(stored)

    def delete(
        self,
        scheduler_id: int,
        *,
        seen: Callable[[StoredSchedule], bool] | None,
        actor: Actor,
        files: Sequence[FileContent] = (),
        with_history: bool = False,
    ) -> None:
        """Delete a schedule that has no run, and that no jobs file would bring back.

        Of *files* that of its source shows that it is in it no more. *with_history* the runs are
        deleted, too, unless one may still run; they go in steps, so those that are gone when an
        error comes stay so.
        """
        stored = self._seen(scheduler_id, seen)
        if stored.source is not None:
            _refuse_named(stored.name, stored.source, files)
        at, was = None if seen is None else stored.updated_at, values_of(stored.draft)
        after = {"history": "deleted"} if with_history else None
        with self._trail.change(actor, Action.DELETE, stored.name, before=was, after=after):
            match self._edits.delete(scheduler_id, seen=at, with_history=with_history):
                case None:
                    raise _not_found(scheduler_id)
                case Outdated(current):
                    raise self._edited_meanwhile(current)
                case KeptByRuns(runs):
                    why = _STILL_RUN.format(stored.name) if with_history else _HAS_HISTORY
                    said = f"schedule {stored.name} has {counted(runs, 'execution')}"
                    raise CannotEdit(f"{said} {why}")

    def _seen(
        self, scheduler_id: int, seen: Callable[[StoredSchedule], bool] | None
    ) -> StoredSchedule:
        stored = self._schedules.with_id(scheduler_id)
        if stored is None:
            raise _not_found(scheduler_id)
        if seen is not None and not seen(stored):
            raise self._edited_meanwhile(stored)
        return stored

    def _edited_meanwhile(self, current: StoredSchedule) -> EditedMeanwhile:
        return EditedMeanwhile(self._views.of_one(current))


def _refuse_named(name: str, source: str, files: Sequence[FileContent]) -> None:
    """Refuse to delete a schedule of a jobs file, unless that file shows that it is gone there."""
    file = next((each for each in files if each.source == source), None)
    if file is None:
        raise CannotEdit(
            f"schedule {name} is of {source}, whose next `cronhare apply`, or start of `up`, would "
            "make it anew if it is still there. Take it out of the file, then show the file to "
            f"`cronhare schedules delete {name} --jobs FILE` (or --app); or disable it"
        )
    if name in {draft.name for draft in file.drafts}:
        raise CannotEdit(
            f"schedule {name} is in {source}, whose next `cronhare apply`, or start of `up`, would "
            "make it anew: take it out there first, or disable it"
        )


def _not_found(scheduler_id: int) -> NotFound:
    return NotFound(f"there is no schedule with the id {scheduler_id}")
