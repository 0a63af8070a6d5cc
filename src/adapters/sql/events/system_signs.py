"""Who waits for a scheduler, for the broker, or for a worker: found by indexes of what is open."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, Select, Subquery, bindparam, func, or_, select

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.system_alerts import OVERDUE_AFTER, QueueSigns, SystemSigns

from ..schema.tables import executions, plans
from ..schema.types import UtcDateTime, read_moment
from ..transactions.database import StorePart, repeatable

#: So many of what waits are counted: more make no other alert.
MOST_COUNTED: Final = 10_000

_BEFORE: Final = bindparam("before", type_=UtcDateTime)
_EARLIEST: Final[Select[Any]] = (
    select(plans.c.next_due_at)
    .where(plans.c.next_due_at < _BEFORE, plans.c.problem.is_(None))
    .order_by(plans.c.next_due_at)
    .limit(1)
)
_UNSENT: Final = (
    select(executions.c.id, executions.c.queue, executions.c.executed_at)
    .where(
        executions.c.state == State.CLAIMED.value,
        executions.c.executed_at < _BEFORE,
        or_(executions.c.next_attempt_at.is_(None), executions.c.next_attempt_at < _BEFORE),
    )
    .order_by(executions.c.check_at)  # by the index, whatever its statistics say of a state
    .limit(MOST_COUNTED)
    .subquery()
)
_SENT: Final = (
    select(executions.c.id, executions.c.queue, executions.c.published_at)
    .where(
        executions.c.state == State.PUBLISHED.value,
        executions.c.published_at < _BEFORE,
        executions.c.queue.not_in(bindparam("served", expanding=True)),
    )
    .order_by(executions.c.check_at)
    .limit(MOST_COUNTED)
    .subquery()
)


def _by_queue(waiting: Subquery, since: str) -> Select[Any]:
    queue, first = waiting.c.queue, func.min(waiting.c.id).label("execution")
    counts = func.count().label("runs"), func.min(waiting.c[since]).label("since"), first
    return select(queue, *counts).group_by(queue).order_by(queue)


_UNSENT_BY_QUEUE: Final = _by_queue(_UNSENT, "executed_at")
_UNSERVED: Final = _by_queue(_SENT, "published_at")


class SystemSignsPart(StorePart):
    """The part of `AlertStorePort` that reads what waits."""

    @repeatable
    def system_signs(self, *, now: datetime, served: Collection[str]) -> SystemSigns:
        before = now - OVERDUE_AFTER
        with self._database.read("looking for what waits") as connection:
            earliest = connection.scalar(_EARLIEST, {"before": before})
            unsent = connection.execute(_UNSENT_BY_QUEUE, {"before": before}).all()
            asked = {"before": before, "served": sorted(served)}
            unserved = connection.execute(_UNSERVED, asked).all()
        return SystemSigns(
            earliest_due=read_moment(earliest),
            unsent={str(row.queue): _counted(row, before) for row in unsent},
            unserved={str(row.queue): _counted(row, before) for row in unserved},
        )


def _counted(row: Row[Any], before: datetime) -> QueueSigns:
    since = read_moment(row.since) or before
    return QueueSigns(runs=row.runs, since=since, execution=row.execution)
