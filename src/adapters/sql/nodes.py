"""Reports of nodes: one row each, written by nobody else."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Engine, Row, bindparam, delete, insert, select, update

from cronhare.domain.nodes import NodeReport
from cronhare.ports.clock import ClockPort

from .mapping.tolerant_reading import NODE
from .schema.tables import nodes
from .schema.types import duration, milliseconds
from .transactions.database import Database, repeatable

_NODES: Final = select(nodes).order_by(nodes.c.name)
_INSERT: Final = insert(nodes)
_KNOWN: Final = select(nodes.c.name).where(nodes.c.name == bindparam("node"))
_UPDATE: Final = update(nodes).where(nodes.c.name == bindparam("node"))
_FORGET: Final = delete(nodes).where(
    nodes.c.seen_at < bindparam("before", type_=nodes.c.seen_at.type)
)

_SEPARATOR: Final = "\n"


class SqlNodeStore:
    """Satisfies `NodeStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)

    @repeatable
    def report(self, report: NodeReport, *, forget_before: datetime) -> None:
        """See `NodeStorePort.report`."""
        values = _values(report)
        known = {"node": report.name, **values}
        with self._database.write(f"reporting node {report.name}") as connection:
            # Asked first: MySQL counts no row that an UPDATE finds and leaves as it was.
            if connection.scalar(_KNOWN, {"node": report.name}):
                connection.execute(_UPDATE, known)
            else:
                connection.execute(_FORGET, {"before": forget_before})
                connection.execute(_INSERT, {"name": report.name, **values})

    @repeatable
    def nodes(self) -> Sequence[NodeReport]:
        """See `NodeStorePort.nodes`."""
        with self._database.read("listing nodes") as connection:
            read = map(NODE.read, connection.execute(_NODES))
            return [_report(row) for row, problem in read if problem is None]


def _values(report: NodeReport) -> dict[str, Any]:
    return {
        "role": report.role,
        "host": report.host,
        "version": report.version,
        "started_at": report.started_at,
        "seen_at": report.seen_at,
        "queues": _SEPARATOR.join(report.queues),
        "concurrency": report.concurrency,
        "running": report.running,
        "clock_offset_ms": milliseconds(report.clock_offset),
    }


def _report(row: Row[Any]) -> NodeReport:
    return NodeReport(
        name=row.name,
        role=row.role,
        host=row.host,
        version=row.version,
        started_at=row.started_at,
        seen_at=row.seen_at,
        queues=tuple(row.queues.split(_SEPARATOR)) if row.queues else (),
        concurrency=row.concurrency,
        running=row.running,
        clock_offset=duration(row.clock_offset_ms) or timedelta(0),
    )
