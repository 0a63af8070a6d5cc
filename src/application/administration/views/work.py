"""Queues and nodes: where work waits, and who does it."""

from datetime import datetime, timedelta
from typing import Self

import attrs

from cronhare.domain.nodes import NodeReport


@attrs.frozen(kw_only=True)
class QueueView:
    """A task queue: its schedules, what the ledger has for it, and what the broker says.

    *waiting* counts what has not begun, *retrying* what has begun before, *oldest_due_at* is the
    earliest of both. *messages* and *consumers* are None where the broker cannot be asked.
    """

    queue: str
    schedules: int
    waiting: int
    retrying: int
    running: int
    oldest_due_at: datetime | None
    messages: int | None
    consumers: int | None


@attrs.frozen(kw_only=True)
class NodeView:
    """A process that works on the ledger; see `NodeReport`.

    *silent*: it has not reported itself for `SILENT_AFTER`; it has ended, or is cut off.
    """

    name: str
    role: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    silent: bool
    queues: tuple[str, ...]
    concurrency: int | None
    running: int | None
    clock_offset_seconds: float

    @classmethod
    def of(cls, report: NodeReport, *, now: datetime) -> Self:
        """Show a node's newest report as it is to be read at *now*."""
        fields = attrs.asdict(report)
        offset: timedelta = fields.pop("clock_offset")
        return cls(
            **fields, silent=report.is_silent(now), clock_offset_seconds=offset.total_seconds()
        )
