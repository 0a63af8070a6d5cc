"""Lists of executions, and what ran when: found by whichever index leaves the fewest rows.

A database would choose among indexes by guesses, and of a million rows the wrong one takes seconds:
so a condition that is not to choose stands in a form that no index answers. Ids grow with the time
of the claim, or nearly so: some twenty looks at the primary key find the executions of a time, and
no claim or start has to keep an index of times.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    bindparam,
    func,
    or_,
    select,
    union,
)

from cronhare.domain.execution import UNFINISHED, State
from cronhare.domain.overlaps import Ran
from cronhare.domain.schedules.keys import ALIVE
from cronhare.domain.schedules.standalone import PREFIX
from cronhare.ports.records import ExecutionFilter, RanInWindow
from cronhare.ports.system import ClockPort

from ..database import Database, repeatable
from ..rows.executions import SCHEDULE_NAME, display_name, exactly, id_of_display_name
from ..schema.tables import attempts, executions, schedulers
from ..schema.types import UtcDateTime
from .archive import rows_of_task

_ROW: Final = executions.c


# Where the executions of a time are


#: Claims overtake each other: one that began first may be written last, and a clock may be set.
OUT_OF_ORDER: Final = timedelta(hours=1)

#: Two looks: asked for both at once, SQLite reads all ids.
_EDGES: Final = select(
    select(func.min(_ROW.id)).scalar_subquery().label("lowest"),
    select(func.max(_ROW.id)).scalar_subquery().label("highest"),
)
_FROM: Final = (
    select(_ROW.id, _ROW.executed_at).where(bindparam("id") <= _ROW.id).order_by(_ROW.id).limit(1)
)


def ids_between(
    connection: Connection, since: datetime | None, until: datetime | None
) -> tuple[int, int] | None:
    """Give the first id, and the one after the last, of what was claimed from *since* to *until*.

    Some others are among them. None if there is no execution at all.
    """
    lowest, highest = connection.execute(_EDGES).one()
    if lowest is None:
        return None
    first, end = lowest, highest + 1
    if since is not None:
        first = first_claimed(connection, since - OUT_OF_ORDER, first, end)
    if until is not None:
        end = first_claimed(connection, until + OUT_OF_ORDER, first, end)
    return first, end


def first_claimed(connection: Connection, moment: datetime, low: int, high: int) -> int:
    """Find the first id, from *low* to before *high*, that was claimed at *moment* or later.

    *high* if there is none. A row that is broken counts as claimed earlier.
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


# Lists


_IDS: Final = select(_ROW.id)
#: As `began_to_stay_alive` says of one.
_STAYS_ALIVE: Final = or_(
    _ROW.queue.startswith(PREFIX, autoescape=True),
    _ROW.execution_key.startswith(ALIVE, autoescape=True),
)

Conditions = Sequence[ColumnElement[bool]]

#: Conditions that an index answers, and in which order it is read.
Range = tuple[Conditions, ColumnElement[Any]]


def newest(connection: Connection, which: ExecutionFilter) -> Sequence[int]:
    """Find the ids of the newest executions that a filter takes, the newest first."""
    others, of_task = tuple(_others(which)), tuple(_of_task(which))
    is_of_task = (or_(*of_task),) if of_task else ()
    if which.schedule is not None:
        # Of one schedule there are so few that they can be sorted.
        ours = *_of_schedule(which.schedule), *_in_states(which), *is_of_task, *others
        return [*connection.scalars(_newest(ours, which, order=_ROW.id + 0))]
    found = ids_between(connection, which.since, which.until) if _has_times(which) else (0, 0)
    if found is None:
        return ()
    if _has_times(which):
        others = (*others, _ROW.id >= found[0], _ROW.id < found[1])
    if of_task and (not which.states or State.SUCCEEDED in which.states):
        # Nearly all have succeeded, whatever their task.
        ranges: list[Range] = [((part, *_in_states(which)), _ROW.id) for part in of_task]
    elif which.states:
        ranges = [
            ((*part, *is_of_task), order)
            for state in which.states
            for part, order in _parts_of(state)
        ]
    else:
        ranges = [((), _ROW.id)]
    return _newest_of(connection, ranges, others, which)


def _newest_of(
    connection: Connection, ranges: Sequence[Range], others: Conditions, which: ExecutionFilter
) -> Sequence[int]:
    """Take the newest of each range, and of these; a row may be in several."""
    parts = [_newest((*part, *others), which, order=order) for part, order in ranges]
    if len(parts) == 1:
        return [*connection.scalars(parts[0])]
    ids = union(*(select(part.subquery()) for part in parts)).subquery()
    return [*connection.scalars(select(ids.c.id).order_by(ids.c.id.desc()).limit(which.limit))]


def _newest(
    conditions: Conditions, which: ExecutionFilter, *, order: ColumnElement[Any] = _ROW.id
) -> Select[Any]:
    return _IDS.where(*conditions).order_by(order.desc()).limit(which.limit)


def _parts_of(state: State) -> Iterator[Range]:
    """Give ranges of the index (state, check_at), each with the order in which it is read.

    What has ended is nearly all in one range, in the order of its ids. The others are few enough to
    be sorted; told to take the newest of them, PostgreSQL would look for them among all.
    """
    is_it = _ROW.state == state.value
    if state in UNFINISHED:
        yield (is_it,), _ROW.id + 0
        return
    yield (is_it, _ROW.check_at.is_(None)), _ROW.id
    yield (is_it, _ROW.check_at.is_not(None)), _ROW.id + 0


def _of_schedule(name: str) -> Iterator[ColumnElement[bool]]:
    id_ = id_of_display_name(name)
    if id_ is None:
        yield _ROW.scheduler_id.in_(select(schedulers.c.id).where(exactly(schedulers.c.name, name)))
    else:
        yield _ROW.scheduler_id == id_
        yield SCHEDULE_NAME.is_(None)


def _in_states(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.states:
        yield func.coalesce(_ROW.state, "").in_([state.value for state in which.states])


def _has_times(which: ExecutionFilter) -> bool:
    return (which.since, which.until) != (None, None)


def _of_task(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.task is not None:
        yield from rows_of_task(executions, which.task, which.numbers)


def _others(which: ExecutionFilter) -> Iterator[ColumnElement[bool]]:
    if which.before is not None:
        yield _ROW.id < which.before
    if which.since is not None:
        yield _ROW.executed_at >= which.since
    if which.until is not None:
        yield _ROW.executed_at < which.until
    if which.stays_alive:
        yield _STAYS_ALIVE
    if which.concurrency_key is not None:
        yield exactly(_ROW.concurrency_key, which.concurrency_key)


# What ran when


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
        ran = list(map(_ran, rows[:limit]))
        left_out = rows[limit].executed_at if len(rows) > limit else None
        return RanInWindow(ran=ran, since=left_out)


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
