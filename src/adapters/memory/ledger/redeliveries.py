"""Notes of who holds a message that came again, in memory."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from cronhare.domain.retries.redeliveries import KEPT_FOR, Hold, Holder

from .tables import MemoryLedger


class MemoryRedeliveryStore:
    """Satisfies `RedeliveryStorePort`. Each public method is one transaction."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def hold(self, message: str, *, holder: Holder, now: datetime) -> Sequence[Hold]:
        with self._ledger.lock:
            notes = self._ledger.holds.setdefault(message, {})
            for node, hold in list(notes.items()):
                if hold.at < now - KEPT_FOR:
                    del notes[node]
            others = [
                self._with_report(hold)
                for hold in notes.values()
                if hold.holder.node != holder.node
            ]
            notes[holder.node] = Hold(holder=holder, at=now)
            return sorted(others, key=lambda hold: hold.at)

    def let_go(self, message: str, *, node: str) -> None:
        with self._ledger.lock:
            self._ledger.holds.get(message, {}).pop(node, None)

    def _with_report(self, hold: Hold) -> Hold:
        report = self._ledger.nodes.get(hold.holder.node)
        return attrs.evolve(hold, seen_at=None if report is None else report.seen_at)
