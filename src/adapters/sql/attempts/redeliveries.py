"""Notes of who holds a message that came again, in SQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, Row, bindparam, delete, insert, select

from cronhare.domain.retries.redeliveries import KEPT_FOR, Hold, Holder
from cronhare.ports.system import ClockPort

from ..schema.tables import holds, nodes
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable

#: No message is delivered to so many nodes within a day; what people insert is not read.
MOST: Final = 1_000

_OF: Final = holds.c.message == bindparam("message_is")
_OLD: Final = delete(holds).where(_OF, holds.c.at < bindparam("before", type_=UtcDateTime))
_MINE: Final = delete(holds).where(_OF, holds.c.node == bindparam("node_is"))
_OTHERS: Final = (
    select(holds, nodes.c.seen_at)
    .outerjoin(nodes, nodes.c.name == holds.c.node)
    .where(_OF, holds.c.node != bindparam("node_is"))
    .order_by(holds.c.at.desc())
    .limit(MOST)
)


class SqlRedeliveryStore:
    """Satisfies `RedeliveryStorePort`. Each method is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def hold(self, message: str, *, holder: Holder, now: datetime) -> Sequence[Hold]:
        mine = {"message_is": message, "node_is": holder.node}
        row = {
            "message": message,
            "node": holder.node,
            "host": holder.host,
            "boot": holder.boot,
            "at": now,
        }
        with self._database.write("noting a message that came again") as connection:
            connection.execute(_OLD, {"message_is": message, "before": now - KEPT_FOR})
            connection.execute(_MINE, mine)
            found = connection.execute(_OTHERS, mine).all()
            connection.execute(insert(holds), row)
        return [_read(each) for each in reversed(found) if isinstance(each.at, datetime)]

    @repeatable
    def let_go(self, message: str, *, node: str) -> None:
        with self._database.write("noting that a message is at hand no more") as connection:
            connection.execute(_MINE, {"message_is": message, "node_is": node})


def _read(row: Row[Any]) -> Hold:
    holder = Holder(node=str(row.node), host=str(row.host), boot=str(row.boot))
    seen_at = row.seen_at if isinstance(row.seen_at, datetime) else None
    return Hold(holder=holder, at=row.at, seen_at=seen_at)
