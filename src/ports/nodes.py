"""The processes that work on a ledger report themselves to it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from cronhare.domain.nodes import NodeReport


class NodeStorePort(Protocol):
    """Keeps the newest report of each node. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_node_store_contract.py does not assert is not promised.
    """

    def report(self, report: NodeReport, *, forget_before: datetime) -> None:
        """Keep a report in place of the node's last one.

        A node's first report deletes those of nodes not seen since *forget_before*.
        """
        ...

    def remove(self, name: str) -> None:
        """Delete the report of a node that ends in good order. Safe to repeat."""
        ...

    def nodes(self) -> Sequence[NodeReport]:
        """List the newest reports by name; broken rows are left out."""
        ...
