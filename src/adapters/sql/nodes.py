"""Reports of nodes: one row each, which only its node writes; and which messages came to whom."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec
from sqlalchemy import bindparam, case, delete, func, insert, or_, select, update

from cronhare.domain.nodes import SILENT_AFTER, NodeReport, NodeReports
from cronhare.domain.retries.retry import KEPT_FOR, Hold, Holder

from .database import Store, repeatable
from .tables.tables import holds, nodes
from .tables.types import OwnTable, milliseconds, moment_of, whole

_AHEAD: Final = nodes.c.seen_at > bindparam("latest", type_=nodes.c.seen_at.type)
_NODES: Final = (
    select(nodes)
    .order_by(case((_AHEAD, 1), else_=0), nodes.c.seen_at.desc(), nodes.c.name)
    .limit(bindparam("limit"))
)
_COUNT: Final = select(func.count()).select_from(nodes)
_INSERT: Final = insert(nodes)
_KNOWN: Final = select(nodes.c.drain_asked_at).where(nodes.c.name == bindparam("node"))
_UPDATE: Final = update(nodes).where(nodes.c.name == bindparam("node"))
# Chosen first, without what others have locked: a DELETE waits for each locked row that it passes.
_OLD: Final = (
    select(nodes.c.name)
    .where(or_(nodes.c.seen_at < bindparam("before", type_=nodes.c.seen_at.type), _AHEAD))
    .limit(1_000)
    .with_for_update(skip_locked=True)
)

_REMOVE: Final = delete(nodes).where(nodes.c.name == bindparam("node"))
# Found without locks, and deleted by their keys: likewise.
_NOTES: Final = select(holds.c.message).where(holds.c.node == bindparam("node"))
_DRAIN: Final = _UPDATE.values(
    drain_asked_at=bindparam("asked_at", type_=nodes.c.drain_asked_at.type)
)

#: Between the names of queues.
_SEPARATOR: Final = "\n"

NODE: Final = OwnTable(nodes, consuming=whole(0, 1) | None)


class SqlNodeStore(Store):
    """Satisfies `NodeStorePort`."""

    @repeatable
    def report(self, report: NodeReport, *, kept_for: timedelta) -> bool:
        values = _values(report)
        with self._database.write(f"reporting node {report.name}") as connection:
            # Asked first: MySQL counts no row that an UPDATE finds and leaves as it was.
            known = connection.execute(_KNOWN, {"node": report.name}).first()
            if known is not None:
                connection.execute(_UPDATE, {"node": report.name, **values})
            else:
                kept = {"before": report.seen_at - kept_for, "latest": report.seen_at + kept_for}
                for old in connection.scalars(_OLD, kept).all():
                    connection.execute(_REMOVE, {"node": old})
                asked = {"drain_asked_at": report.drain_asked_at}
                connection.execute(_INSERT, {"name": report.name, **values, **asked})
        return (report if known is None else known).drain_asked_at is not None

    @repeatable
    def drain(self, name: str, *, asked_at: datetime | None) -> bool:
        with self._database.write(f"asking node {name} to drain") as connection:
            known = connection.execute(_KNOWN, {"node": name}).first()
            if known is None:
                return False
            if asked_at is None or known.drain_asked_at is None:
                connection.execute(_DRAIN, {"node": name, "asked_at": asked_at})
            return True

    def remove(self, name: str) -> None:
        self.forget(name)  # first and alone: it waits for nobody who holds a note
        self._let_go(name)

    @repeatable
    def nodes(self, *, now: datetime, limit: int) -> NodeReports:
        asked = {"latest": now + SILENT_AFTER, "limit": limit}
        with self._database.read("listing nodes") as connection:
            known = connection.scalar(_COUNT) or 0
            rows = connection.execute(_NODES, asked).all()
        reports = list(map(_report, NODE.readable(rows)))
        return NodeReports(reports=reports, known=known, broken=len(rows) - len(reports))

    @repeatable
    def forget(self, name: str) -> None:
        with self._database.write(f"removing the report of node {name}") as connection:
            connection.execute(_REMOVE, {"node": name})

    @repeatable
    def _let_go(self, name: str) -> None:
        with self._database.write(f"taking back the notes of node {name}") as connection:
            found = connection.scalars(_NOTES, {"node": name}).all()
            if found:
                mine = [{"message_is": message, "node_is": name} for message in found]
                connection.execute(_MINE, mine)


def _values(report: NodeReport) -> dict[str, Any]:
    values = attrs.asdict(report)
    del values["name"], values["drain_asked_at"], values["clock_offset"]
    return {
        **values,
        "queues": _SEPARATOR.join(report.queues),
        "clock_offset_ms": milliseconds(report.clock_offset),
        "consuming": None if report.consuming is None else int(report.consuming),
    }


def _report(row: Any) -> NodeReport:  # noqa: ANN401 - see `OwnTable.each`
    fields = msgspec.structs.asdict(row)
    offset = fields.pop("clock_offset_ms")
    return NodeReport(
        **{
            **fields,
            "queues": tuple(row.queues.split(_SEPARATOR)) if row.queues else (),
            "clock_offset": timedelta(milliseconds=offset),
            "consuming": None if row.consuming is None else bool(row.consuming),
        }
    )


#: No message is delivered to so many nodes within a day.
MOST_HOLDS: Final = 1_000

_OF_MESSAGE: Final = holds.c.message == bindparam("message_is")
_OLD_HOLDS: Final = delete(holds).where(_OF_MESSAGE, holds.c.at < moment_of("before"))
_MINE: Final = delete(holds).where(_OF_MESSAGE, holds.c.node == bindparam("node_is"))
_OTHERS: Final = (
    select(holds, nodes.c.seen_at)
    .outerjoin(nodes, nodes.c.name == holds.c.node)
    .where(_OF_MESSAGE, holds.c.node != bindparam("node_is"))
    .order_by(holds.c.at.desc())
    .limit(MOST_HOLDS)
)


_HOLD: Final = OwnTable(holds, seen_at=datetime | None)


class SqlRedeliveryStore(Store):
    """Satisfies `RedeliveryStorePort`. Each method is one transaction."""

    @repeatable
    def hold(self, message: str, *, holder: Holder, now: datetime) -> Sequence[Hold]:
        mine = {"message_is": message, "node_is": holder.node}
        row = {"message": message, "at": now, **attrs.asdict(holder)}
        with self._database.write("noting a message that came again") as connection:
            connection.execute(_OLD_HOLDS, {"message_is": message, "before": now - KEPT_FOR})
            connection.execute(_MINE, mine)
            found = connection.execute(_OTHERS, mine).all()
            connection.execute(insert(holds), row)
        return [
            Hold(
                holder=Holder(node=each.node, host=each.host, boot=each.boot),
                at=each.at,
                seen_at=each.seen_at,
            )
            for each in _HOLD.readable(reversed(found))
        ]

    @repeatable
    def let_go(self, message: str, *, node: str) -> None:
        with self._database.write("noting that a message is at hand no more") as connection:
            connection.execute(_MINE, {"message_is": message, "node_is": node})
