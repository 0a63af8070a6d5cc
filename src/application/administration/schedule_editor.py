"""Schedules that people edit and delete one by one."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.access.audit import Action, AuditOutcome
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.texts.words import counted
from cronhare.ports.records import RecordsPort
from cronhare.ports.schedules import (
    KeptByRuns,
    Outdated,
    ScheduleEditsPort,
    ScheduleStorePort,
    StoredSchedule,
)

from .audit_trail import AuditTrail
from .audit_values import differing, values_of
from .files_together import FileContent
from .lookup import NotFound, refuse_unknown_calendars
from .names import Names
from .schedule_lists import shown_schedules
from .views.schedules import ScheduleView

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
        """*current* is how it is now."""
        self.current = current
        super().__init__(f"schedule {current.name} was edited since it was read")


class CannotEdit(ValueError):
    """An edit or a deletion is refused; nothing was changed."""


@attrs.frozen(kw_only=True)
class ScheduleEditor:
    """Each method may raise `LedgerUnavailable`. *now* is the ledger's clock.

    Where one says what was *seen*, that is asked about the row as it is: what it answers False to
    is not changed. None changes it in any case.
    """

    _edits: ScheduleEditsPort
    _schedules: ScheduleStorePort
    _records: RecordsPort
    _names: Names
    _policy: RetryPolicy
    _now: Callable[[], datetime]
    _trail: AuditTrail

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

        Raises:
            NotFound: there is none.
            EditedMeanwhile: it is not what was seen.
            CannotEdit: its row is broken, and *change* needs what it said.
            ScheduleInvalid: whatever *change* finds, or a calendar that there is not.
            LedgerRefused: the table refuses a value.
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
            now = self._now()
            was, becomes = differing(stored.draft, new)
            before = was if stored.draft else {"problem": stored.problem}
            with self._trail.change(
                actor, Action.EDIT, stored.name, now=now, before=before, after=becomes
            ) as note:
                answer = self._edits.edit(scheduler_id, new, seen=stored.updated_at, now=now)
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
        [shown] = self._shown([stored], self._now())
        return shown

    def delete(
        self,
        scheduler_id: int,
        *,
        seen: Callable[[StoredSchedule], bool] | None,
        actor: Actor,
        file: FileContent | None = None,
        with_history: bool = False,
    ) -> None:
        """Delete a schedule that has no run, and that no jobs file would bring back.

        *file* shows that a schedule of its source is in it no more. *with_history* the runs are
        deleted, too, unless one may still run; they go in steps, so those that are gone when an
        error comes stay so.

        Raises:
            NotFound: there is none.
            EditedMeanwhile: it is not what was seen.
            CannotEdit: it stays, and why.
        """
        stored = self._seen(scheduler_id, seen)
        if stored.source is not None:
            _refuse_named(stored.name, stored.source, file)
        at, was = None if seen is None else stored.updated_at, values_of(stored.draft)
        after = {"history": "deleted"} if with_history else None
        with self._trail.change(
            actor, Action.DELETE, stored.name, now=self._now(), before=was, after=after
        ):
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
        [shown] = self._shown([current], self._now())
        return EditedMeanwhile(shown)

    def _shown(self, found: Sequence[StoredSchedule], now: datetime) -> Sequence[ScheduleView]:
        return shown_schedules(found, self._records, self._names, policy=self._policy, now=now)


def _refuse_named(name: str, source: str, file: FileContent | None) -> None:
    """Refuse to delete a schedule of a jobs file, unless that *file* shows that it is gone there.

    Raises:
        CannotEdit: it names the schedule, or is not this file.
    """
    if file is None or file.source != source:
        raise CannotEdit(
            f"schedule {name} is of {source}, whose next `cronhare apply`, or start of `up`, would "
            "make it anew if it is still there. Take it out of the file, then show the file to "
            f"`cronhare schedules delete {name} --jobs FILE`; or disable it"
        )
    if name in {draft.name for draft in file.drafts}:
        raise CannotEdit(
            f"schedule {name} is in {source}, whose next `cronhare apply`, or start of `up`, would "
            "make it anew: take it out there first, or disable it"
        )


def _not_found(scheduler_id: int) -> NotFound:
    return NotFound(f"there is no schedule with the id {scheduler_id}")
