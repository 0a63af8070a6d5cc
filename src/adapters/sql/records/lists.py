"""Lists of executions, what ran when, and known names: found by what index leaves the fewest rows.

A database would guess which index to use, and of a million rows the wrong one takes seconds. So a
condition that is not to choose stands in a form that no index answers. Ids grow with the time of
the claim, or nearly so: some twenty looks at the primary key find the executions of a time, and no
claim or start has to keep an index of times.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from cronhare.domain.execution import UNFINISHED, State
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.keys import ALIVE
from cronhare.domain.schedules.task import COLUMN_OF_TYPE, LARGEST_NUMBER, TaskRef
from cronhare.ports.records import ExecutionFilter, Ran, RanInWindow

from ..database import Store, StorePart, repeatable
from ..tables.executions import (
    IS_STANDALONE,
    SCHEDULE_NAME,
    display_name,
    exactly,
    id_of_display_name,
    in_states,
    rows_near,
)
from ..tables.schedule_columns import TASK_COLUMNS, read_task
from ..tables.schedules import IS_USERS
from ..tables.tables import attempts, executions, failed_tasks, schedulers
from ..tables.types import moment_of
from .archive import rows_of_task

_ROW: Final = executions.c


# Where the executions of a time are


#: A claim that began first may be written last, and a clock may be set.
OUT_OF_ORDER: Final = timedelta(hours=1)

#: Two looks: asked for both at once, SQLite reads all ids.
_EDGES: Final = sa.select(
    sa.select(sa.func.min(_ROW.id)).scalar_subquery().label("lowest"),
    sa.select(sa.func.max(_ROW.id)).scalar_subquery().label("highest"),
)
_IS_LATER: Final = _ROW.executed_at >= moment_of("moment")
_FROM: Final = (
    sa.select(_ROW.id, _IS_LATER).where(sa.bindparam("id") <= _ROW.id).order_by(_ROW.id).limit(1)
)


def ids_between(
    connection: sa.Connection, since: datetime | None, until: datetime | None
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


def first_claimed(connection: sa.Connection, moment: datetime, low: int, high: int) -> int:
    """Find the first id, from *low* to before *high*, that was claimed at *moment* or later.

    *high* if there is none.
    """
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(_FROM, {"id": middle, "moment": moment}).first()
        if row is None or row[0] >= high or row[1]:
            high = middle
        else:
            low = row[0] + 1
    return low


# Lists


#: As `began_to_stay_alive` says of one.
_STAYS_ALIVE: Final = sa.or_(IS_STANDALONE, _ROW.execution_key.startswith(ALIVE, autoescape=True))

#: Conditions that an index answers, and in which order it is read.
Range = tuple[Sequence[sa.ColumnElement[bool]], sa.ColumnElement[Any]]


def newest(connection: sa.Connection, which: ExecutionFilter) -> Sequence[int]:
    """Find the ids of the newest executions that a filter takes, the newest first."""
    others = [*_others(which)]
    of_states: sa.ColumnElement[bool] = sa.true()
    is_of_task: sa.ColumnElement[bool] = sa.true()
    if which.states:
        of_states = sa.func.coalesce(_ROW.state, "").in_([state.value for state in which.states])
    of_task: Sequence[sa.ColumnElement[bool]] = ()
    if which.task is not None:
        of_task = tuple(rows_of_task(executions, which.task, which.numbers))
        is_of_task = sa.or_(*of_task)
    ranges: list[Range]
    if which.schedule is not None:
        # Of one schedule there are so few that they can be sorted.
        ranges = [((*_of_schedule(which.schedule), of_states, is_of_task), _ROW.id + 0)]
    elif of_task and (not which.states or State.SUCCEEDED in which.states):
        # Nearly all have succeeded, whatever their task.
        ranges = [((part, of_states), _ROW.id) for part in of_task]
    elif which.states:
        parts = (part for state in which.states for part in _parts_of(state))
        ranges = [((*part, is_of_task), order) for part, order in parts]
    else:
        ranges = [((), _ROW.id)]
    if which.schedule is None and (which.since is not None or which.until is not None):
        found = ids_between(connection, which.since, which.until)
        if found is None:
            return ()
        others += [_ROW.id >= found[0], _ROW.id < found[1]]
    lists = [
        sa.select(_ROW.id).where(*part, *others).order_by(order.desc()).limit(which.limit)
        for part, order in ranges
    ]
    if len(lists) == 1:
        return connection.scalars(lists[0]).all()
    ids = sa.union(*(sa.select(each.subquery()) for each in lists)).subquery()  # without doubles
    return connection.scalars(
        sa.select(ids.c.id).order_by(ids.c.id.desc()).limit(which.limit)
    ).all()


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


def _of_schedule(name: str) -> Iterator[sa.ColumnElement[bool]]:
    id_ = id_of_display_name(name)
    if id_ is None:
        yield _ROW.scheduler_id.in_(
            sa.select(schedulers.c.id).where(exactly(schedulers.c.name, name))
        )
    else:
        yield _ROW.scheduler_id == id_
        yield SCHEDULE_NAME.is_(None)


def _others(which: ExecutionFilter) -> Iterator[sa.ColumnElement[bool]]:
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
    sa.select(
        *attempts.c["execution_id", "attempt", "node", "started_at", "finished_at", "ending"],
        executions.c.scheduler_id,
        executions.c.executed_at,
        schedulers.c.name.label("schedule_name"),
    )
    .select_from(
        attempts.join(executions, executions.c.id == attempts.c.execution_id).outerjoin(
            schedulers, schedulers.c.id == executions.c.scheduler_id
        )
    )
    .where(
        attempts.c.execution_id >= sa.bindparam("first"),
        attempts.c.execution_id < sa.bindparam("last"),
        attempts.c.started_at < moment_of("until"),
        sa.or_(attempts.c.finished_at.is_(None), attempts.c.finished_at >= moment_of("since")),
    )
    .order_by(attempts.c.execution_id.desc(), attempts.c.attempt.desc())
    .limit(sa.bindparam("limit"))
)


class Timeline(StorePart):
    """The part of `StatisticsPort` that finds what ran in a window."""

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


def _ran(row: sa.Row[*tuple[Any, ...]]) -> Ran:
    fields = row._asdict()
    del fields["executed_at"]
    fields["schedule_name"] = display_name(row.schedule_name, row.scheduler_id)
    return Ran(**fields)


# Names of tasks and queues


_SCHEDULE: Final = schedulers.c
#: From an index alone: the system's own have no name.
_TASKS: Final = sa.select(_SCHEDULE.task_name).where(_SCHEDULE.task_name > "").distinct()

#: So many schedules of a task are read: there may be very many, and they all say the same.
_READ: Final = 100


class SqlNames(Store):
    """Satisfies `NamesPort`."""

    @repeatable
    def numbers_of(self, task: str) -> Collection[TaskRef]:
        columns = [_SCHEDULE[name] for name in TASK_COLUMNS]
        newest = (
            sa.select(*columns)
            .where(_SCHEDULE.task_name == task, IS_USERS)
            .order_by(_SCHEDULE.id.desc())
            .limit(_READ)
            .subquery()
        )
        with self._database.read("looking for a task's numbers") as connection:
            rows = connection.execute(sa.select(newest).distinct()).all()
        found = [read_task(tuple(row)) for row in rows]
        return {one.ref for one in found if not one.faults}

    @repeatable
    def has_task(self, task: str, numbers: Collection[TaskRef]) -> bool:
        tables = (executions, failed_tasks)
        with self._database.read("looking for a task") as connection:
            return _has(connection, schedulers, _of_schedules(task, numbers)) or any(
                _has(connection, table, rows_of_task(table, task, numbers)) for table in tables
            )

    @repeatable
    def has_queue(self, queue: str) -> bool:
        open_ones = in_states(UNFINISHED)
        conditions = (
            (schedulers, _SCHEDULE.queue == queue),
            (executions, open_ones & (_ROW.queue == queue)),
            (failed_tasks, failed_tasks.c.queue == queue),
        )
        with self._database.read("looking for a queue") as connection:
            return any(_has(connection, table, [condition]) for table, condition in conditions)

    @repeatable
    def has_type(self, type_: str) -> bool:
        column = COLUMN_OF_TYPE.get(type_)
        own = (_SCHEDULE.task_type == type_) & _SCHEDULE.task_id.is_not(None)
        conditions = (
            (schedulers, IS_USERS & (own if column is None else _SCHEDULE[column].is_not(None))),
            (failed_tasks, failed_tasks.c.task_type == type_),
        )
        with self._database.read("looking for a type of tasks") as connection:
            return any(_has(connection, table, [condition]) for table, condition in conditions)

    @repeatable
    def sources(self) -> Collection[str]:
        with self._database.read("looking for jobs files") as connection:
            found = connection.scalars(
                sa.select(_SCHEDULE.source).where(_SCHEDULE.source > "").distinct()
            )
            return {name for name in found if isinstance(name, str)}

    @repeatable
    def tasks_near(self, name: str, *, limit: int) -> Collection[str]:
        with self._database.read("looking for names of tasks") as connection:
            found = rows_near(connection, _TASKS, _SCHEDULE.task_name, name, limit // 2)
        return [task for (task,) in found if isinstance(task, str)]


def _of_schedules(task: str, numbers: Collection[TaskRef]) -> Iterator[sa.ColumnElement[bool]]:
    """Give the conditions of the schedules of a task: one by an index, one by reading all."""
    yield _SCHEDULE.task_name == task
    others: list[sa.ColumnElement[bool]] = []
    asked = TaskRef.read(task)
    is_nameless = sa.func.coalesce(_SCHEDULE.task_name, task) == task
    for ref in {*numbers} if asked is None else {asked}:
        if ref.id <= LARGEST_NUMBER:  # no row has a larger one
            column = COLUMN_OF_TYPE.get(ref.type)
            own = (_SCHEDULE.task_type == ref.type) & (_SCHEDULE.task_id == ref.id)
            has_number = own if column is None else _SCHEDULE[column] == ref.id
            others.append(has_number if asked else has_number & is_nameless)
    if ref_of_topic(task) in numbers:
        others.append(_SCHEDULE.topic == task)
    if others:
        yield sa.or_(*others)


def _has(
    connection: sa.Connection, table: sa.Table, conditions: Iterable[sa.ColumnElement[bool]]
) -> bool:
    found = (
        sa.select(sa.literal(1)).select_from(table).where(each).limit(1) for each in conditions
    )
    return any(connection.execute(each).first() is not None for each in found)
