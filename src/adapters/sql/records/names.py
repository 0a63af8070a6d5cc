"""The names of tasks and queues that a ledger knows: each is looked for where an index has it."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, literal, or_, select

from cronhare.domain.execution import UNFINISHED
from cronhare.domain.schedules.task import LARGEST_NUMBER, TaskRef
from cronhare.domain.schedules.topic import ref_of_topic
from cronhare.ports.system import ClockPort

from ..database import Database, repeatable
from ..rows.schedule_columns import COLUMN_OF_TYPE, TASK_COLUMNS, read_task
from ..rows.schedules import IS_USERS
from ..schema.tables import executions, failed_tasks, schedulers
from .archive import rows_of_task

_ROW: Final = schedulers.c
#: From an index alone: the system's own have no name.
_TASKS: Final = select(_ROW.task_name).where(_ROW.task_name > "").distinct()

#: A task may have very many schedules, and they all say the same.
_READ: Final = 100


class SqlNames:
    """Satisfies `NamesPort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def numbers_of(self, task: str) -> Collection[TaskRef]:
        columns = [_ROW[name] for name in TASK_COLUMNS]
        newest = (
            select(*columns)
            .where(_ROW.task_name == task, IS_USERS)
            .order_by(_ROW.id.desc())
            .limit(_READ)
            .subquery()
        )
        with self._database.read("looking for a task's numbers") as connection:
            rows = connection.execute(select(newest).distinct()).all()
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
        open_ones = executions.c.state.in_([state.value for state in UNFINISHED])
        conditions = (
            (schedulers, _ROW.queue == queue),
            (executions, open_ones & (executions.c.queue == queue)),
            (failed_tasks, failed_tasks.c.queue == queue),
        )
        with self._database.read("looking for a queue") as connection:
            return any(_has(connection, table, [condition]) for table, condition in conditions)

    @repeatable
    def has_type(self, type_: str) -> bool:
        column = COLUMN_OF_TYPE.get(type_)
        own = (_ROW.task_type == type_) & _ROW.task_id.is_not(None)
        conditions = (
            (schedulers, IS_USERS & (own if column is None else _ROW[column].is_not(None))),
            (failed_tasks, failed_tasks.c.task_type == type_),
        )
        with self._database.read("looking for a type of tasks") as connection:
            return any(_has(connection, table, [condition]) for table, condition in conditions)

    @repeatable
    def sources(self) -> Collection[str]:
        with self._database.read("looking for jobs files") as connection:
            found = connection.scalars(select(_ROW.source).where(_ROW.source > "").distinct())
            return {name for name in found if isinstance(name, str)}

    @repeatable
    def tasks_near(self, name: str, *, limit: int) -> Collection[str]:
        half, column = limit // 2, _ROW.task_name
        before = _TASKS.where(column < name).order_by(column.desc()).limit(half)
        after = _TASKS.where(column >= name).order_by(column).limit(half)
        with self._database.read("looking for names of tasks") as connection:
            found = [*reversed(connection.scalars(before).all()), *connection.scalars(after)]
        return [name for name in found if isinstance(name, str)]


def _of_schedules(task: str, numbers: Collection[TaskRef]) -> Iterator[ColumnElement[bool]]:
    """Give the conditions of the schedules of a task: one by an index, one by reading all."""
    yield _ROW.task_name == task
    others = [*_by_number(task, numbers)]
    if ref_of_topic(task) in numbers:
        others.append(_ROW.topic == task)
    if others:
        yield or_(*others)


def _by_number(task: str, numbers: Collection[TaskRef]) -> Iterator[ColumnElement[bool]]:
    asked = TaskRef.read(task)
    is_nameless = func.coalesce(_ROW.task_name, task) == task
    for ref in {*numbers} if asked is None else {asked}:
        if ref.id > LARGEST_NUMBER:
            continue  # no row can have it
        column = COLUMN_OF_TYPE.get(ref.type)
        own = (_ROW.task_type == ref.type) & (_ROW.task_id == ref.id)
        has_number = own if column is None else _ROW[column] == ref.id
        yield has_number if asked else has_number & is_nameless


def _has(connection: Connection, table: Table, conditions: Iterable[ColumnElement[bool]]) -> bool:
    found = (select(literal(1)).select_from(table).where(each).limit(1) for each in conditions)
    return any(connection.execute(each).first() is not None for each in found)
