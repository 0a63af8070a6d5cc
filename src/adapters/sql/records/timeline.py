"""What ran when, found by the numbers of executions: these grow with the time of the claim.

So no index is needed that every claim and every start would have to keep.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Engine, Row, bindparam, or_, select

from cronhare.domain.overlaps import Ran
from cronhare.ports.clock import ClockPort
from cronhare.ports.timeline import RanInWindow

from ..mapping.execution_rows import display_name
from ..schema.tables import attempts, executions, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .claim_times import ids_between

#: What began before the window, and may have gone on in it: so far back, and so many executions.
LOOKED_BACK: Final = timedelta(days=1)
MOST_BEFORE: Final = 50_000

_RAN: Final = (
    select(
        attempts.c.execution_id,
        attempts.c.attempt,
        attempts.c.node,
        attempts.c.started_at,
        attempts.c.finished_at,
        attempts.c.ending,
        executions.c.scheduler_id,
        executions.c.executed_at,
        schedulers.c.name,
    )
    .select_from(
        attempts.join(executions, executions.c.id == attempts.c.execution_id).outerjoin(
            schedulers, schedulers.c.id == executions.c.scheduler_id
        )
    )
    .where(
        attempts.c.execution_id >= bindparam("first"),
        attempts.c.execution_id < bindparam("last"),
        attempts.c.started_at < bindparam("until", type_=UtcDateTime),
        or_(
            attempts.c.finished_at.is_(None),
            attempts.c.finished_at >= bindparam("since", type_=UtcDateTime),
        ),
    )
    .order_by(attempts.c.execution_id.desc(), attempts.c.attempt.desc())
    .limit(bindparam("limit"))
)


class SqlTimelineStore:
    """Satisfies `TimelineStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def ran(self, since: datetime, until: datetime, *, limit: int) -> RanInWindow:
        with self._database.read("reading what ran when") as connection:
            between = ids_between(connection, since, until)
            if between is None:
                return RanInWindow(ran=())
            begin, end = between
            lowest, _ = ids_between(connection, since - LOOKED_BACK, since) or between
            asked = {
                "first": max(lowest, begin - MOST_BEFORE),
                "last": end,
                "since": since,
                "until": until,
                "limit": limit + 1,
            }
            rows = connection.execute(_RAN, asked).all()
        ran = [_ran(row) for row in rows]
        left_out = rows[limit].executed_at if len(rows) > limit else None
        return RanInWindow(ran=ran[:limit], since=left_out)


def _ran(row: Row[*tuple[Any, ...]]) -> Ran:
    return Ran(
        execution_id=row.execution_id,
        attempt=row.attempt,
        scheduler_id=row.scheduler_id,
        schedule_name=display_name(row.name, row.scheduler_id),
        node=row.node,
        started_at=row.started_at,
        finished_at=row.finished_at,
        ending=row.ending,
    )
