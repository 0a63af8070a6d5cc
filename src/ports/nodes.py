"""The processes that work on a ledger report themselves to it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs


@attrs.frozen(kw_only=True)
class NodeReport:
    """What a process reports of itself at *seen_at*.

    *role* is `scheduler`, `worker`, or `up` for both in one. *running* counts its attempts, at most
    *concurrency*; both are None where it runs no tasks. *clock_offset* is how far its own clock is
    ahead of the ledger's.
    """

    name: str
    role: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    running: int | None = None
    clock_offset: timedelta = timedelta(0)


class NodeStorePort(Protocol):
    """Keeps the newest report of each node. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_node_store_contract.py does not assert is not promised.
    """

    def report(self, report: NodeReport, *, forget_before: datetime) -> None:
        """Keep a report in place of the node's last one.

        A node's first report deletes those of nodes not seen since *forget_before*.
        """
        ...

    def nodes(self) -> Sequence[NodeReport]:
        """List the newest reports by name; broken rows are left out."""
        ...
