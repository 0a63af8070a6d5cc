"""Writing down who changes what: ahead of a change, and what became of it afterwards."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import attrs
import msgspec

from cronhare.domain.access import Actor
from cronhare.domain.audit import Action, AuditOutcome, Intent, Result
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.records import AuditStorePort

from ..logs import say
from .jobs_file.difference import Change, ChangedKind, ScheduleChange
from .views.schedules import shown_field

log = logging.getLogger(__name__)


def values_of(draft: ScheduleDraft | None) -> dict[str, Any] | None:
    """Give the fields of a draft that are not at their defaults; None for a broken row."""
    if draft is None:
        return None
    shown = dict[str, Any]()
    for field in attrs.fields(ScheduleDraft):
        value = getattr(draft, field.name)
        if field.name != "name" and value != field.default:
            shown |= shown_field(field.name, value)
    return dict(plain(shown))


def differing(
    before: ScheduleDraft | None, after: ScheduleDraft
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if before is None:
        return None, values_of(after)
    old, new = dict[str, Any](), dict[str, Any]()
    for field in attrs.fields(ScheduleDraft):
        was, becomes = getattr(before, field.name), getattr(after, field.name)
        if was != becomes:
            old |= shown_field(field.name, was)
            new |= shown_field(field.name, becomes)
    same = {name for name in new if old.get(name) == new[name]}
    return plain(_without(old, same)), plain(_without(new, same))


def values_of_filter(which: FailureFilter) -> dict[str, Any]:
    return dict(plain(which.conditions))


def values_of_change(change: ScheduleChange) -> tuple[Any, Any]:
    if change.change is Change.DISABLE:
        is_schedule = change.kind is ChangedKind.SCHEDULE
        return ({"status": True}, {"status": False}) if is_schedule else ("there", "removed")
    if change.change is Change.ADD and change.kind is ChangedKind.SCHEDULE:
        return None, values_of(change.draft)
    before, after = dict[str, Any](), dict[str, Any]()
    for field in change.fields:
        before |= shown_field(field.field, field.before)
        after |= shown_field(field.field, field.after)
    return plain(before), plain(after)


def names_of(changes: Sequence[ScheduleChange], which: Change) -> list[str]:
    return [change.name for change in changes if change.change is which]


def plain(value: Any) -> Any:  # noqa: ANN401 - a value of a view
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def _without(values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


@attrs.define
class Note:
    """A change that was asked for *at* a time of the ledger's clock.

    Before it ends, a use case says what is there *after*, and the outcome.
    """

    at: datetime
    after: Any = None
    outcome: AuditOutcome = AuditOutcome.DONE
    problem: str | None = None

    def unless(self, *, changed: bool) -> None:
        if not changed:
            self.outcome = AuditOutcome.UNCHANGED


@attrs.frozen(kw_only=True)
class AuditTrail:
    """No change is without an entry: the entry is committed before the change begins."""

    _entries: AuditStorePort
    _stopwatch: Callable[[], float]  # seconds that only go forward
    now: Callable[[], datetime]  # the ledger's clock

    @contextmanager
    def change(
        self,
        actor: Actor,
        action: Action,
        target: str,
        *,
        before: Any = None,  # noqa: ANN401 - a JSON value
        after: Any = None,  # noqa: ANN401 - a JSON value
    ) -> Iterator[Note]:
        """Write an entry, let the block make the change, and complete the entry.

        An error of the block is its outcome, and goes on: one that leaves the ledger's state open
        is an unknown outcome.

        Raises:
            LedgerUnavailable: the entry cannot be written; nothing was changed.
        """
        with self.changes(actor, action, {target: (before, after)}) as notes:
            yield notes[target]

    @contextmanager
    def changes(
        self,
        actor: Actor,
        action: Action | Mapping[str, Action],
        targets: Mapping[str, tuple[Any, Any]],
    ) -> Iterator[Mapping[str, Note]]:
        """Do the same with several targets that are changed together, each before and after.

        The end is as much later than the beginning as the change took by the stopwatch.
        """
        now, began = self.now(), self._stopwatch()
        intents = [
            Intent(
                at=now,
                actor=actor,
                action=action if isinstance(action, Action) else action[target],
                target=target,
                before=before,
                after=after,
            )
            for target, (before, after) in targets.items()
        ]
        ids = dict(zip(targets, self._begin(intents), strict=True))
        notes = {target: Note(now) for target in targets}
        try:
            yield notes
        except BaseException as error:
            outcome, problem = _outcome_of(error), str(error) or type(error).__name__
            for note in notes.values():
                note.outcome, note.problem = outcome, problem
            raise
        finally:
            self._finish(ids, notes, now + timedelta(seconds=self._stopwatch() - began))

    def _begin(self, intents: list[Intent]) -> list[int]:
        try:
            return list(self._entries.begin(intents)) if intents else []
        except LedgerUnavailable as error:
            error.changed_nothing = True  # of what was asked for
            raise

    def _finish(self, ids: Mapping[str, int], notes: Mapping[str, Note], at: datetime) -> None:
        """Complete entries; where that fails the change stands, and its entry says unknown."""
        results = [
            Result(
                id=ids[target], at=at, outcome=note.outcome, problem=note.problem, after=note.after
            )
            for target, note in notes.items()
        ]
        try:
            if results:
                self._entries.finish(results)
        except LedgerUnavailable as error:
            text = f"What became of a change stays unknown in the audit: {error}"
            say(log, logging.WARNING, "audit.unfinished", text, entries=sorted(ids.values()))


def _outcome_of(error: BaseException) -> AuditOutcome:
    """Tell what an error leaves of a change: one that is ours, or a person's Ctrl-C, says nothing.

    Refusals of use cases are errors of values and of names.
    """
    if isinstance(error, LedgerUnavailable):
        return AuditOutcome.REFUSED if error.changed_nothing else AuditOutcome.UNKNOWN
    is_refusal = isinstance(error, ValueError | LookupError | LedgerRefused)
    return AuditOutcome.REFUSED if is_refusal else AuditOutcome.UNKNOWN
