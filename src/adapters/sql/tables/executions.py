"""Rows of executions as values: as they are read, and what they print and yield."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final

import attrs
import sqlalchemy as sa

from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.retries.outcome import MAY_COUNT, Crash, Ending
from cronhare.domain.schedules.keys import DUE, PREFIX
from cronhare.domain.schedules.schedule import LONGEST_NAME, NOBODY, OWNER_FIELDS, ScheduleOwner
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.printable import echo
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.runner import AttemptResult, Captured, TaskReport, Written

from ..dialect import dialect_of
from .schedule_columns import LONG_AGO, read_retry, write_retry
from .tables import IDS, attempts, by_id, executions, outputs, schedulers
from .types import (
    BrokenRow,
    OwnTable,
    duration,
    milliseconds,
    moment_of,
    named_rows,
    to_text,
)

_RUN: Final = executions.c

Reading = Callable[[sa.Connection, sa.Select[Any], Mapping[str, Any]], Iterable[sa.Row[Any]]]

#: The name of an execution's schedule. No join: locking executions would lock their schedules as
#: well, and wait for a person who edits one.
SCHEDULE_NAME = (
    sa.select(schedulers.c.name).where(schedulers.c.id == _RUN.scheduler_id).scalar_subquery()
)

#: Every statement that selects executions begins so; `executions_of` reads its rows.
EXECUTION: sa.Select[Any] = sa.select(executions, SCHEDULE_NAME.label("schedule_name"))

#: Executions by their `ids`.
BY_IDS = by_id(EXECUTION)

_USER, _GROUP, _LANGUAGE = (
    sa.func.coalesce(sa.cast(schedulers.c[name], sa.String), "") for name in OWNER_FIELDS
)
#: The owner of an execution's schedule, as `ScheduleOwner` reads it; NULL where there is none. One
#: text, as each subquery costs every start; and no join, see above.
_OWNED_BY = (
    sa.select(
        sa.case(
            (sa.func.coalesce(*(schedulers.c[name] for name in OWNER_FIELDS)).is_(None), None),
            else_=_USER.concat(",").concat(_GROUP).concat(",").concat(_LANGUAGE),
        )
    )
    .where(schedulers.c.id == _RUN.scheduler_id)
    .scalar_subquery()
)

#: The same, with the owners of their schedules.
OWNED_BY_IDS = by_id(EXECUTION.add_columns(_OWNED_BY.label("owned_by")))

_CRASHES = (
    sa.select(attempts.c.execution_id, attempts.c.finished_at, attempts.c.ending, attempts.c.node)
    .where(
        attempts.c.execution_id.in_(IDS),
        attempts.c.ending.in_(sorted(ending.value for ending in MAY_COUNT)),
    )
    .order_by(attempts.c.execution_id, attempts.c.attempt)
)

_ENDED: Final = OwnTable(attempts, finished_at=datetime, ending=Ending)

_TABLE: Final = OwnTable(
    executions,
    container_id=str | None,  # of an adopted row
    state=State,
    schedule_name=Any,  # people write it: see `display_name`
    owned_by=Any,  # see `ScheduleOwner`
)

#: What replaces the cells of a broken row that do not fit: it is set apart, or listed as broken.
_STAND_INS: Final[Mapping[str, Any]] = {
    **{column.name: None for column in executions.c},
    **dict.fromkeys(("scheduler_id", "deaths", "crashes", "task_id", "missed", "resends"), 0),
    **dict.fromkeys(("attempt", "version"), 1),
    **dict.fromkeys(("execution_key", "task_type"), ""),
    "executed_at": LONG_AGO,
    "state": State.CLAIMED,
    "queue": MAIN_QUEUE,
    "schedule_name": None,
}

#: The columns of a new execution, in the order of `new_values`.
NEW_COLUMNS: Final = (
    "scheduler_id",
    "execution_key",
    "executed_at",
    "container_id",
    "due_at",
    "state",
    "attempt",
    "deaths",
    "version",
    "task_type",
    "task_id",
    "queue",
    "params",
    "retry",
    "timeout_ms",
    "next_attempt_at",
    "check_at",
    "missed",
    "source",
    "task_name",
    "finished_at",
    "last_error",
    "last_due_at",
    "concurrency_key",
    "overlap_policy",
    "held_by",
    "expires_at",
    "topic",
    "no_listener",
)


def is_in(state: State) -> sa.ColumnElement[bool]:
    """Ask for the state of rows that are locked by their ids, and keep its index out of it.

    Of a small table MySQL and MariaDB would rather read the index of states, and lock its entries
    before the rows. A start or an end locks the rows first: both would deadlock.
    """
    return sa.func.coalesce(_RUN.state, "") == state.value


def in_states(states: Iterable[State]) -> sa.ColumnElement[bool]:
    return _RUN.state.in_(sorted(state.value for state in states))


def is_of_due_instant(key: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return sa.or_(*(key.like(f"{begins}%") for begins in DUE))


#: What is known of the success of a first attempt.
SUCCESS: Final = ("id", "exit_code", "pid", "peak_memory", "cpu_seconds", "left_running")
SUCCESS_TYPES: Final = {
    name: (executions if name == "id" else attempts).c[name].type for name in SUCCESS
}

#: Which executions succeed then, and what of them changes (as by `transitions.end`). Text, as it is
#: the hot path: {e} is the table's alias.
MAY_SUCCEED: Final = (
    "{e}.state = 'running' AND {e}.attempt = 1 AND {e}.owner = {node} AND {e}.cancel_requested = 0"
)
SUCCEEDS: Final = (
    "state = 'succeeded', version = {e}.version + 1, owner = NULL, lease_until = NULL, "
    "held_by = NULL, last_error = NULL"
)

#: The execution is one of a schedule with a worker of its own.
IS_STANDALONE = _RUN.queue.startswith(PREFIX, autoescape=True)
#: The last attempt of an execution, and its output.
IS_LAST_ATTEMPT = sa.and_(attempts.c.execution_id == _RUN.id, attempts.c.attempt == _RUN.attempt)
IS_LAST_OUTPUT = sa.and_(outputs.c.execution_id == _RUN.id, outputs.c.attempt == _RUN.attempt)


def new_values(execution: Execution) -> tuple[Any, ...]:
    """Write it in the order of `NEW_COLUMNS`; a getter of fields is half as fast."""
    return (
        execution.scheduler_id,
        execution.key,
        to_text(execution.executed_at),
        execution.container_id,
        to_text(execution.due_at),
        execution.state.value,
        execution.attempt,
        execution.deaths,
        execution.version,
        execution.task.type,
        execution.task.id,
        execution.queue,
        execution.params,
        write_retry(execution.retry),
        milliseconds(execution.timeout),
        moment_text(execution.next_attempt_at),
        moment_text(execution.check_at),
        execution.missed,
        execution.source,
        execution.task_name,
        moment_text(execution.finished_at),
        execution.last_error,
        moment_text(execution.last_due_at),
        execution.concurrency_key,
        execution.overlap_policy,
        execution.held_by,
        moment_text(execution.expires_at),
        execution.topic,
        execution.no_listener,
    )


def moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def known_id(id_: int) -> int:
    """Give 0, which nothing has, for a number that no id can be."""
    return id_ if 0 < id_ <= LARGEST_ID else 0


def display_name(name: object, scheduler_id: object) -> str:
    """Name a schedule; one whose name is missing or impossible is called `#` and its id."""
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
        return name
    return f"#{echo(scheduler_id)}"


def id_of_display_name(name: str) -> int | None:
    """Read the id from such a `#` name."""
    digits = name.removeprefix("#")
    if name == digits or not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > len(str(LARGEST_ID)):  # more of them than `int` takes, perhaps
        return None
    return int(digits) if int(digits) <= LARGEST_ID else None


def executions_of(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> list[Execution]:
    """Turn rows of `EXECUTION` into executions with their crashes.

    Broken rows too: see `Execution.problem`.
    """
    read = [_problem_and_cells(each) for each in _TABLE.each(rows)]
    crashes = _crashes(connection, {row.id: row.crashes for _, row in read if row.crashes})
    return [_execution(row, problem, crashes.get(row.id, ())) for problem, row in read]


def _problem_and_cells(read: Any) -> tuple[str | None, Any]:  # noqa: ANN401 - see `OwnTable.each`
    if not isinstance(read, BrokenRow):
        return None, read
    fitting = dict(_TABLE.fitting(read.row))
    return read.why, SimpleNamespace(**{**_STAND_INS, **fitting, "id": read.row.id})


def find_executions(
    connection: sa.Connection,
    statement: sa.Select[Any],
    ids: Collection[int],
    *,
    read: Reading = named_rows,
) -> dict[int, Execution]:
    """Find executions by id with a statement that takes `ids`; many of them by a `Dialect.read`."""
    known = [id_ for id_ in ids if known_id(id_)]
    if not known:
        return {}
    rows = read(connection, statement, {"ids": known})
    return {found.id: found for found in executions_of(connection, rows)}


def _crashes(connection: sa.Connection, counts: dict[int, int]) -> dict[int, tuple[Crash, ...]]:
    """Read how each execution crashed: the last times, as many as it counts since a replay."""
    if not counts:
        return {}
    crashes: dict[int, list[Crash]] = {id_: [] for id_ in counts}
    for row in _ENDED.readable(connection.execute(_CRASHES, {"ids": list(counts)})):
        crashes[row.execution_id].append(Crash(row.finished_at, row.ending, row.node))
    return {id_: tuple(found[-counts[id_] :]) for id_, found in crashes.items()}


def _execution(
    row: Any,  # noqa: ANN401 - see `OwnTable.each`
    problem: str | None,
    crashes: tuple[Crash, ...],
) -> Execution:
    policy = None
    try:
        policy = read_retry(row.retry) if row.retry else None
    except ValueError as error:
        problem = problem or f"{executions.name}: retry: {error}"
    owned_by = getattr(row, "owned_by", None)
    return Execution(
        id=row.id,
        scheduler_id=row.scheduler_id,
        schedule_name=display_name(row.schedule_name, row.scheduler_id),
        key=row.execution_key,
        state=row.state,
        task=TaskRef(row.task_type, row.task_id),
        params=row.params or "{}",
        queue=row.queue,
        attempt=row.attempt,
        deaths=row.deaths,
        version=row.version,
        due_at=row.due_at or row.executed_at,
        executed_at=row.executed_at,
        container_id=row.container_id or "",
        retry=policy,
        timeout=duration(row.timeout_ms),
        owner=row.owner,
        lease_until=row.lease_until,
        next_attempt_at=row.next_attempt_at,
        check_at=row.check_at,
        published_at=row.published_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        last_error=row.last_error,
        cancel_requested=bool(row.cancel_requested),
        last_due_at=row.last_due_at,
        missed=row.missed,
        resends=row.resends,
        source=row.source,
        task_name=row.task_name,
        concurrency_key=row.concurrency_key,
        overlap_policy=row.overlap_policy,
        held_by=row.held_by,
        expires_at=row.expires_at,
        topic=row.topic,
        no_listener=row.no_listener,
        crashes=crashes,
        problem=problem,
        owned_by=NOBODY if owned_by is None else ScheduleOwner.read(owned_by),
    )


def rows_near(
    connection: sa.Connection,
    listed: sa.Select[Any],
    column: sa.ColumnElement[str],
    name: str,
    each: int,
) -> list[Any]:
    """Find what is *listed* just before a name, and just after it, *each* at most."""
    before = listed.where(column < name).order_by(column.desc()).limit(each)
    after = listed.where(column >= name).order_by(column).limit(each)
    return [*connection.execute(before), *connection.execute(after)]


def batches(values: Sequence[Any], size: int) -> Iterable[list[Any]]:
    """Cut a long list into pieces that a statement can take as parameters."""
    remaining = iter(values)
    while piece := list(islice(remaining, size)):
        yield piece


#: What is kept of each stream, and of what an attempt reports.
CAPTURED: Final = [field.name for field in attrs.fields(Captured)]
REPORTED: Final = [field.name for field in attrs.fields(TaskReport)]

_NAMES = [column.name for column in outputs.c]
#: As SQLite and MySQL have it, and where nothing is replaced as cheap as an INSERT.
REPLACE = sa.text(
    f"REPLACE INTO {outputs.name} ({', '.join(_NAMES)})"  # noqa: S608 - names of our own
    f" VALUES ({', '.join(f':{name}' for name in _NAMES)})"
).bindparams(moment_of("as_of"))


def keep_outputs(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of `output_values`, each in place of what its attempt had written before."""
    if rows:
        dialect_of(connection).keep_outputs(connection, rows)


def output_values(
    execution_id: int, attempt: int, wrote: AttemptResult | Written, *, as_of: datetime | None
) -> dict[str, Any]:
    streams = {"stdout": wrote.stdout, "stderr": wrote.stderr}
    return {
        "execution_id": execution_id,
        "attempt": attempt,
        "as_of": as_of,
        **{f"{of}_{part}": getattr(streams[of], part) for of in streams for part in CAPTURED},
        **{name: getattr(wrote.report, name) for name in REPORTED},
    }


def exactly(column: sa.ColumnElement[Any], wanted: str) -> sa.ColumnElement[bool]:
    """Ask whether a column has this text, and no blanks after it: `utf8mb4_bin` ignores them.

    What is equal is found by an index; its length is asked of that alone.
    """
    return (column == wanted) & (sa.func.length(column) == sa.func.length(wanted))
