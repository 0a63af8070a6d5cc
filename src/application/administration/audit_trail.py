"""Writing down who changes what: ahead of a change, and what became of it afterwards."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.access.audit import Action, AuditOutcome, Intent, Result
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.records import AuditStorePort

from ..logs import say

log = logging.getLogger(__name__)


@attrs.define
class Note:
    """What a use case says of its change before it ends: the value *after*, and the outcome."""

    after: Any = None
    outcome: AuditOutcome = AuditOutcome.DONE
    problem: str | None = None

    def unless(self, *, changed: bool) -> None:
        """Say that nothing was to be changed, if nothing was."""
        if not changed:
            self.outcome = AuditOutcome.UNCHANGED


@attrs.frozen(kw_only=True)
class AuditTrail:
    """No change is without an entry: the entry is committed before the change begins."""

    _entries: AuditStorePort
    _stopwatch: Callable[[], float]  # seconds that only go forward

    @contextmanager
    def change(
        self,
        actor: Actor,
        action: Action,
        target: str,
        *,
        now: datetime,
        before: Any = None,  # noqa: ANN401 - a JSON value
        after: Any = None,  # noqa: ANN401 - a JSON value
    ) -> Iterator[Note]:
        """Write an entry, let the block make the change, and complete the entry.

        An error of the block is its outcome, and goes on: one that leaves the ledger's state open
        is an unknown outcome.

        Raises:
            LedgerUnavailable: the entry cannot be written; nothing was changed.
        """
        with self.changes(actor, action, {target: (before, after)}, now=now) as notes:
            yield notes[target]

    @contextmanager
    def changes(
        self,
        actor: Actor,
        action: Action | Mapping[str, Action],
        targets: Mapping[str, tuple[Any, Any]],
        *,
        now: datetime,
    ) -> Iterator[Mapping[str, Note]]:
        """Do the same with several targets that are changed together, each before and after.

        *now* is the caller's clock. The end is told by the same one: it is so much later as the
        change took, whoever sets which clock meanwhile.
        """
        began = self._stopwatch()
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
        notes = {target: Note() for target in targets}
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
