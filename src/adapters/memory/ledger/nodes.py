"""Reports of nodes, in memory."""

from collections.abc import Sequence
from datetime import datetime

from cronhare.domain.nodes import NodeReport

from .tables import MemoryLedger


class MemoryNodeStore:
    """Satisfies `NodeStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def report(self, report: NodeReport, *, forget_before: datetime) -> None:
        """See `NodeStorePort.report`."""
        with self._ledger.lock:
            nodes = self._ledger.nodes
            if report.name not in nodes:
                for old in [each for each in nodes.values() if each.seen_at < forget_before]:
                    del nodes[old.name]
            nodes[report.name] = report

    def remove(self, name: str) -> None:
        """See `NodeStorePort.remove`."""
        with self._ledger.lock:
            self._ledger.nodes.pop(name, None)

    def nodes(self) -> Sequence[NodeReport]:
        """See `NodeStorePort.nodes`."""
        with self._ledger.lock:
            return sorted(self._ledger.nodes.values(), key=lambda each: each.name)
