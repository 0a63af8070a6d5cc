"""What ran when, found by the numbers of executions: these grow with the time of the claim.

So no index is needed that every claim and every start would have to keep.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, bindparam, func, or_, select

from cronhare.domain.overlaps import Ran
from cronhare.ports.clock import ClockPort
from cronhare.ports.timeline import RanInWindow

from ..mapping.execution_rows import display_name
from ..schema.tables import attempts, executions, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable

#: What began before the window, and may have gone on in it: so far back, and so many executions.
LOOKED_BACK: Final = timedelta(days=1)
MOST_BEFORE: Final = 50_000

_ID: Final = executions.c.id
_EDGES: Final = select(func.min(_ID), func.max(_ID))
_FROM: Final = (
    select(_ID, executions.c.executed_at).where(bindparam("id") <= _ID).order_by(_ID).limit(1)
)
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
        """See `Database`."""
        self._database = Database(engine, clock)

    @repeatable
    def ran(self, since: datetime, until: datetime, *, limit: int) -> RanInWindow:
        """See `TimelineStorePort.ran`."""
        with self._database.read("reading what ran when") as connection:
            lowest, highest = connection.execute(_EDGES).one()
            if lowest is None:
                return RanInWindow(ran=())
            begin = _first_claimed(connection, since, lowest, highest + 1)
            before = _first_claimed(connection, since - LOOKED_BACK, lowest, begin)
            asked = {
                "first": max(before, begin - MOST_BEFORE),
                "last": _first_claimed(connection, until, begin, highest + 1),
                "since": since,
                "until": until,
                "limit": limit + 1,
            }
            rows = connection.execute(_RAN, asked).all()
        ran = [_ran(row) for row in rows if isinstance(row.started_at, datetime)]
        left_out = rows[limit].executed_at if len(rows) > limit else None
        return RanInWindow(ran=ran[:limit], since=left_out)


def _first_claimed(connection: Connection, moment: datetime, low: int, high: int) -> int:
    """Find the first execution, from *low* to before *high*, that was claimed at *moment* or later.

    *high* if there is none. What cannot be read counts as claimed earlier.
    """
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(_FROM, {"id": middle}).first()
        at = None if row is None or row.id >= high else row.executed_at
        if row is None or row.id >= high or (isinstance(at, datetime) and at >= moment):
            high = middle
        else:
            low = row.id + 1
    return low


def _ran(row: Row[*tuple[Any, ...]]) -> Ran:
    finished_at, ending = row.finished_at, row.ending
    return Ran(
        execution_id=row.execution_id,
        attempt=row.attempt,
        scheduler_id=row.scheduler_id,
        schedule_name=display_name(row.name, row.scheduler_id),
        node=str(row.node),
        started_at=row.started_at,
        finished_at=finished_at if isinstance(finished_at, datetime) else None,
        ending=ending if isinstance(ending, str) else None,
    )
