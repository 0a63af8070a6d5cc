"""SQLite: one file, one writer at a time, any number of processes on one host."""

import sqlite3
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cronhare.domain.execution import Execution
from cronhare.ports.clock import ClockPort

from .rows import policy_text
from .tables import executions
from .types import milliseconds, to_text
from .vendor import PlanRow

#: So long a statement waits for another process that writes: far above a commit, below a lease.
BUSY_SECONDS: Final = 10.0

_COLUMNS: Final = (
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
    "finished_at",
    "last_error",
    "last_due_at",
    "missed",
)

# The two statements of the hot path are text with plain tuples: SQLAlchemy's named parameters
# would take three times as long as SQLite does.
_INSERT_EXECUTION: Final = (
    f'INSERT INTO "SchedulerExecution" ({", ".join(_COLUMNS)}) '  # noqa: S608 - names of our own
    f"VALUES ({', '.join('?' * len(_COLUMNS))}) "
    "ON CONFLICT (scheduler_id, execution_key) DO NOTHING"
)
_SET_PLAN: Final = (
    'INSERT INTO "SchedulerPlan" (scheduler_id, next_due_at, planned_at, problem) '
    "VALUES (?, ?, ?, ?) ON CONFLICT (scheduler_id) DO UPDATE SET "
    "next_due_at = excluded.next_due_at, planned_at = excluded.planned_at, "
    "problem = excluded.problem"
)
_NEWEST: Final = select(func.coalesce(func.max(executions.c.id), 0))

_ADVICE: Final = {
    "SQLITE_BUSY": "another process has kept the file locked for "
    f"{BUSY_SECONDS:.0f} s: look for a transaction that somebody left open on it",
    "SQLITE_LOCKED": "another connection keeps a table locked: look for an open transaction",
    "SQLITE_FULL": "the disk is full: make room, and it goes on by itself",
    "SQLITE_READONLY": "the file is read-only: let this user write to it and to its folder",
    "SQLITE_CANTOPEN": "the file cannot be opened: its folder must exist, and this user must be "
    "allowed to write to both",
    "SQLITE_NOTADB": "the file is not an SQLite database: see that the URL names the right one",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup",
    "SQLITE_IOERR": "the disk or its file system reports a fault",
}


class SqliteVendor:
    """Satisfies `Vendor`."""

    def __init__(self) -> None:
        # Threads of one process queue here, in microseconds; SQLite's own waiting sleeps.
        self._lock = Lock()

    def now(self, clock: ClockPort) -> datetime:
        """The database has no clock of its own: it is on this host."""
        return clock.now()

    def writing(self) -> Lock:
        """See `Vendor.writing`."""
        return self._lock

    def begin(self, connection: Connection) -> None:
        """Take the write lock at once. To take it later, after a read, can be refused at once."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def held(self, statement: Select[Any], *, pass_over: bool = False) -> Select[Any]:  # noqa: ARG002
        """Whoever writes is alone here: nothing is left to be held."""
        return statement

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """See `Vendor.insert_executions`. The writer is alone: what is newer now is its own."""
        before = connection.scalar(_NEWEST)
        connection.exec_driver_sql(_INSERT_EXECUTION, [_values(one) for one in wanted])
        inserted = connection.exec_driver_sql(
            'SELECT id, scheduler_id, execution_key FROM "SchedulerExecution" WHERE id > ?',
            (before,),
        )
        ids = {(scheduler_id, key): id_ for id_, scheduler_id, key in inserted}
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """See `Vendor.set_plans`."""
        connection.exec_driver_sql(
            _SET_PLAN,
            [
                (row.scheduler_id, _text(row.next_due_at), row.planned_at, row.problem)
                for row in rows
            ],
        )

    def explain(self, error: SQLAlchemyError) -> str:
        """See `Vendor.explain`."""
        original = error.orig if isinstance(error, DBAPIError) else None
        name = getattr(original, "sqlite_errorname", None) or ""
        for known, advice in _ADVICE.items():
            if name.startswith(known):
                return f"{advice} ({original})"
        return str(original or error)

    def is_outdated(self, error: SQLAlchemyError) -> bool:
        """See `Vendor.is_outdated`."""
        said = str(error.orig) if isinstance(error, DBAPIError) else ""
        return said.startswith(("no such table", "no such column")) or "has no column" in said


def _values(execution: Execution) -> tuple[Any, ...]:
    """Write a new execution in the order of `_COLUMNS`."""
    next_attempt_at = _text(execution.next_attempt_at)
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
        policy_text(execution.retry),
        milliseconds(execution.timeout),
        next_attempt_at,
        next_attempt_at,  # check_at: the reconciler looks from then on
        _text(execution.finished_at),
        execution.last_error,
        _text(execution.last_due_at),
        execution.missed,
    )


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def prepare(connection: sqlite3.Connection) -> None:
    """Set up a new connection.

    WAL lets readers go on beside the writer. With synchronous=NORMAL a commit outlives kill -9
    too, but after a power loss the last ones may be gone: their instants would be claimed, and
    run, a second time. FULL flushes the log with each commit: 0.1 ms on an idle disk, a few on a
    busy one.
    """
    # One row with a text that is no UTF-8 would keep all the others from being read.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    connection.isolation_level = None  # transactions begin where we say, not where the driver does
    cursor = connection.cursor()
    _into_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _into_wal(cursor: sqlite3.Cursor) -> None:
    """Switch the file to WAL. The switch does not wait for others by itself, so we do."""
    give_up_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            [mode] = cursor.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorname.startswith("SQLITE_BUSY")
            if not busy or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
        else:
            return
