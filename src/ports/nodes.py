"""The processes that work on a ledger report themselves to it."""

from datetime import datetime, timedelta
from typing import Protocol

from cronhare.domain.nodes import NodeReport, NodeReports


class NodeStorePort(Protocol):
    """Keeps the newest report of each node. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_node_store_contract.py does not assert is not promised.
    """

    def report(self, report: NodeReport, *, kept_for: timedelta) -> bool:
        """Keep a report in place of the node's last one; answers whether it is to be drained.

        Whether it was asked to stays as the ledger has it. Where the ledger has forgotten the node,
        it is as the report says.

        A node's first report deletes those of nodes that were seen longer than *kept_for* before
        it; or after it, which somebody wrote, or a clock that leapt.
        """
        ...

    def drain(self, name: str, *, asked_at: datetime | None) -> bool:
        """Ask a node to take no more work, or with None take that back; False if it is unknown.

        Asked again it keeps the time of the first. It hears of it with its next report.
        """
        ...

    def remove(self, name: str) -> None:
        """Delete the report of a node that ends in good order. Safe to repeat.

        With it go its notes of messages that came again: it has not died of them.
        """
        ...

    def nodes(self, *, now: datetime, limit: int) -> NodeReports:
        """List the reports of the *limit* nodes seen last, the newest first, then by name.

        Those that cannot have been seen, as it would be `SILENT_AFTER` later than *now*, come after
        all others. Of the rows that were read the broken ones are left out, and counted.
        """
        ...
