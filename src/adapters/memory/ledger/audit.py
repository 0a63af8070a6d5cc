"""The audit, in memory."""

from collections.abc import Sequence
from itertools import islice

import attrs

from cronhare.domain.access.audit import AuditEntry, Intent, Result
from cronhare.ports.audit import AuditFilter

from .tables import MemoryLedger


class MemoryAuditStore:
    """Satisfies `AuditStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._rows = ledger.audit

    def begin(self, intents: Sequence[Intent]) -> Sequence[int]:
        with self._ledger.lock:
            ids = [next(self._ledger.audit_ids) for _ in intents]
            for id_, intent in zip(ids, intents, strict=True):
                self._rows[id_] = AuditEntry(
                    id=id_,
                    at=intent.at,
                    actor=intent.actor.name,
                    channel=intent.actor.channel,
                    action=intent.action,
                    target=intent.target,
                    before=intent.before,
                    after=intent.after,
                )
            return ids

    def finish(self, results: Sequence[Result]) -> None:
        with self._ledger.lock:
            for result in results:
                entry = self._rows.get(result.id)
                if entry is not None and entry.finished_at is None:
                    self._rows[result.id] = attrs.evolve(
                        entry,
                        outcome=result.outcome,
                        problem=result.problem,
                        finished_at=result.at,
                        after=entry.after if result.after is None else result.after,
                    )

    def entries(
        self, which: AuditFilter, *, before: int | None, limit: int
    ) -> Sequence[AuditEntry]:
        with self._ledger.lock:
            found = (
                entry
                for entry in reversed(self._rows.values())
                if (before is None or entry.id < before)
                and (which.since is None or entry.at >= which.since)
                and which.actor in {None, entry.actor}
                and which.target in {None, entry.target}
            )
            return list(islice(found, limit))
