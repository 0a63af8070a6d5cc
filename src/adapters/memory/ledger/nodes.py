"""Reports of nodes, in memory."""

from datetime import datetime, timedelta

import attrs

from cronhare.domain.nodes import SILENT_AFTER, NodeReport, NodeReports

from .tables import MemoryLedger


class MemoryNodeStore:
    """Satisfies `NodeStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def report(self, report: NodeReport, *, kept_for: timedelta) -> bool:
        with self._ledger.lock:
            nodes = self._ledger.nodes
            known = nodes.get(report.name)
            if known is None:
                for each in [*nodes.values()]:
                    if abs(report.seen_at - each.seen_at) > kept_for:
                        del nodes[each.name]
            asked_at = (report if known is None else known).drain_asked_at
            nodes[report.name] = attrs.evolve(report, drain_asked_at=asked_at)
            return asked_at is not None

    def drain(self, name: str, *, asked_at: datetime | None) -> bool:
        with self._ledger.lock:
            known = self._ledger.nodes.get(name)
            if known is None:
                return False
            if asked_at is None or known.drain_asked_at is None:
                self._ledger.nodes[name] = attrs.evolve(known, drain_asked_at=asked_at)
            return True

    def remove(self, name: str) -> None:
        with self._ledger.lock:
            self._ledger.nodes.pop(name, None)
            for notes in self._ledger.holds.values():
                notes.pop(name, None)

    def nodes(self, *, now: datetime, limit: int) -> NodeReports:
        with self._ledger.lock:
            found = sorted(self._ledger.nodes.values(), key=lambda each: each.name)
        found.sort(key=lambda each: each.seen_at, reverse=True)
        found.sort(key=lambda each: each.seen_at - now > SILENT_AFTER)
        return NodeReports(reports=found[:limit], known=len(found))
