"""SQLite: one file, one writer at a time, any number of processes on one host."""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.types import TypeEngine

from cronhare.adapters.addresses import LedgerFile
from cronhare.domain.execution import Execution
from cronhare.ports.inspection import Cause, DatabaseFacts, LedgerFacts, SchemaFault
from cronhare.ports.system import ClockPort

from ..dialect import UPGRADE, Columns, Connect, Meaning, with_dialect
from ..tables.executions import (
    MAY_SUCCEED,
    NEW_COLUMNS,
    REPLACE,
    SUCCEEDS,
    SUCCESS,
    new_values,
)
from ..tables.tables import executions
from ..tables.types import LENGTH, HandWritten, UtcDateTime, named_rows, to_text
from .batches import PLAN_COLUMNS, as_texts
from .sqlite_file import BUSY_SECONDS, connect, is_there, make_file, prepare

# Tables


def _check(column: sa.Column[Any]) -> str | None:
    """Look at moments alone: to look at each value would take as long as to write it."""
    is_ours = isinstance(column.type, UtcDateTime) and not isinstance(column.type, HandWritten)
    return f"length({column.name}) = {LENGTH}" if is_ours else None


#: The types are but a hint: each column takes values of any type.
COLUMNS: Final = Columns(
    id=sa.Integer(),  # only an INTEGER PRIMARY KEY is numbered by itself
    moment=sa.String(LENGTH),  # a text of one length, and of a form that our triggers can write
    flag=sa.Boolean(),
    text=sa.Text(),
    string=sa.String,
    reads_moments=False,
    check=_check,
    kept_up=sa.String(LENGTH),
    created_at="''",  # until a trigger fills it: no computed default can be added to a table
    updated_at="''",
    references_schedules=True,
)

_NOW: Final = "strftime('%Y-%m-%d %H:%M:%f', 'now')"  # to the millisecond

# Two edits within one millisecond are told apart by the last three digits; a plan knows an edit
# by inequality alone.
_LATER: Final = f"""
    CASE substr(OLD.updated_at, 1, 23)
        WHEN {_NOW}
        THEN substr(OLD.updated_at, 1, 23)
             || printf('%03d', (CAST(substr(OLD.updated_at, 24, 3) AS INTEGER) + 1) % 1000)
        ELSE {_NOW} || '000'
    END"""

_CREATED: Final = f"""
    CREATE TRIGGER scheduler_created AFTER INSERT ON "Scheduler"
    WHEN NEW.created_at = '' OR NEW.updated_at = ''
    BEGIN
        UPDATE "Scheduler" SET
            created_at = CASE created_at WHEN '' THEN {_NOW} || '000' ELSE created_at END,
            updated_at = CASE updated_at WHEN '' THEN {_NOW} || '000' ELSE updated_at END
        WHERE id = NEW.id;
    END"""  # noqa: S608 - no text from outside
# Our own writes set updated_at, from the ledger's clock: they are left alone.
_UPDATED: Final = f"""
    CREATE TRIGGER scheduler_updated AFTER UPDATE OF @EDITABLE ON "Scheduler"
    WHEN NEW.updated_at IS OLD.updated_at
    BEGIN
        UPDATE "Scheduler" SET updated_at = {_LATER} WHERE id = NEW.id;
    END"""  # noqa: S608 - likewise


# What its errors mean

_ADVICE: Final = {
    "SQLITE_BUSY": "another process has kept the file locked for "
    f"{BUSY_SECONDS:.0f} s: look for a transaction that somebody left open on it",
    "SQLITE_LOCKED": "another connection keeps a table locked: look for an open transaction",
    "SQLITE_FULL": "the disk is full: make room, and it goes on by itself",
    "SQLITE_READONLY": "the file is read-only: let this user write to it and to its folder",
    "SQLITE_CANTOPEN": "the file cannot be opened: its folder must exist, and this user must be "
    "allowed to write to both",
    "SQLITE_NOTADB": "the file is not an SQLite database: look at CRON_DATABASE_URL",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup",
    "SQLITE_IOERR": "the disk or its file system reports a fault",
}

_REFUSED: Final = ("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG")

#: What a trigger, or an index that it fills, may fail of.
_FAILED: Final = ("SQLITE_ERROR", "SQLITE_CORRUPT_VTAB")

#: No table, no column.
_MISSING: Final = re.compile(r"no such table: |no such column: |no column named ")


class SqliteErrors:
    """Satisfies `Errors`."""

    def meaning_of(self, error: BaseException | None) -> Meaning:
        """Tell by its name. What SQLite says of its file, or of who uses it, holds for all rows.

        No transaction is rolled back: a writer is alone, and has waited for that before it began.
        """
        name = _name_of(error)
        if isinstance(error, IntegrityError | DataError) or name.startswith(_REFUSED):
            return Meaning.REFUSED
        if _MISSING.search(str(_original(error))):
            return Meaning.MISSING
        return Meaning.FAILED if name.startswith(_FAILED) else Meaning.OUTAGE

    def cause_of(self, error: BaseException | None) -> tuple[Cause, str]:  # noqa: ARG002
        """There is no server: whatever it is, it is the file's."""
        return Cause.OTHER, ""

    def explain(self, error: SQLAlchemyError) -> str:
        name, said = _name_of(error), str(_original(error) or error)
        found = (advice for known, advice in _ADVICE.items() if name.startswith(known))
        return next((f"{advice} ({said})" for advice in found), said)


def _name_of(error: BaseException | None) -> str:
    return getattr(_original(error), "sqlite_errorname", None) or ""


def _original(error: BaseException | None) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else None


# Statements


# Those of the hot path are text with plain tuples: SQLAlchemy's named parameters would
# take three times as long as SQLite does.
_INSERT_EXECUTION: Final = (
    f'INSERT INTO "SchedulerExecution" ({", ".join(NEW_COLUMNS)}) '  # noqa: S608 - names of our own
    f"VALUES ({', '.join('?' * len(NEW_COLUMNS))}) "
    "ON CONFLICT (scheduler_id, execution_key) DO NOTHING"
)
_SET_PLAN: Final = (
    f'INSERT INTO "SchedulerPlan" ({", ".join(PLAN_COLUMNS)}) '  # noqa: S608 - likewise
    f"VALUES ({', '.join('?' * len(PLAN_COLUMNS))}) ON CONFLICT (scheduler_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in PLAN_COLUMNS if name != "scheduler_id")
)
_SUCCEED: Final = (
    f'UPDATE "SchedulerExecution" AS e SET {SUCCEEDS.format(e="e")}, finished_at = :now '  # noqa: S608
    f"WHERE e.id = :id AND {MAY_SUCCEED.format(e='e', node=':node')}"
)
_END_ATTEMPT: Final = (
    "UPDATE \"ExecutionAttempt\" SET finished_at = :now, ending = 'succeeded', "  # noqa: S608
    f"{', '.join(f'{name} = :{name}' for name in SUCCESS[1:])} "
    "WHERE execution_id = :id AND attempt = 1"
)
_NEWEST: Final = sa.select(sa.func.coalesce(sa.func.max(executions.c.id), 0))


@lru_cache(maxsize=64)
def _as_text(statement: sa.Update) -> tuple[str, Sequence[str], Mapping[str, Any]]:
    compiled: Any = statement.compile(dialect=sqlite_dialect())
    return str(compiled), compiled.positiontup, compiled.params


class SqliteDialect:
    """Satisfies `Dialect`."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        # Threads of one process queue here, in microseconds; SQLite's own waiting sleeps.
        self._lock = Lock()

    errors = SqliteErrors()

    def missing(self) -> LedgerFacts | None:
        """Tell a missing file without making it, as connecting to it would."""
        if is_there(Path(self._file.path)):
            return None
        what = f"There is no file {self._file.path} yet"
        fault = SchemaFault(what, f"{UPGRADE}, or start `cronhare up`")
        return LedgerFacts(database=_facts(), schema=fault)

    def facts(self, connection: sa.Connection) -> DatabaseFacts:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        return _facts(settings={"journal_mode": str(mode)})

    @property
    def place(self) -> str:
        return str(LedgerFile(str(Path(self._file.path).absolute())))

    def autocommitting(self, engine: sa.Engine) -> None:
        """A file takes no round trips."""

    def now(self, clock: ClockPort, connect: Connect) -> datetime:  # noqa: ARG002
        """The database has no clock of its own: it is on this host."""
        return clock.now()

    def write_lock(self) -> Lock:
        return self._lock

    def begin(self, connection: sa.Connection) -> None:
        """Take the write lock at once. To take it later, after a read, can be refused at once."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def read(
        self, connection: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[sa.Row[Any]]:
        return named_rows(connection, statement, parameters)

    def insert_executions(
        self, connection: sa.Connection, wanted: Sequence[Execution]
    ) -> list[int]:
        before = connection.scalar(_NEWEST)
        connection.exec_driver_sql(_INSERT_EXECUTION, [new_values(one) for one in wanted])
        inserted = connection.exec_driver_sql(
            'SELECT id, scheduler_id, execution_key FROM "SchedulerExecution" WHERE id > ?',
            (before,),
        )
        ids = {(scheduler_id, key): id_ for id_, scheduler_id, key in inserted}
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def set_plans(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        connection.exec_driver_sql(_SET_PLAN, [tuple(as_texts(row)) for row in rows])

    def keep_outputs(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        connection.execute(REPLACE, rows)

    def succeed(
        self,
        connection: sa.Connection,
        ends: Sequence[tuple[Any, ...]],
        *,
        now: datetime,
        node: str,
    ) -> int:
        """The second statement trusts the first: unless it has found all, nothing is committed."""
        known = {"now": to_text(now), "node": node}
        rows = [{**known, **dict(zip(SUCCESS, end, strict=True))} for end in ends]
        found = connection.exec_driver_sql(_SUCCEED, rows).rowcount
        connection.exec_driver_sql(_END_ATTEMPT, rows)
        return found

    def update_many(
        self, connection: sa.Connection, statement: sa.Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        if rows:
            sql, names, constants = _as_text(statement)
            values = [[row.get(name, constants[name]) for name in names] for row in rows]
            connection.exec_driver_sql(sql, [tuple(as_texts(each)) for each in values])

    def prepare_adoption(self, connection: sa.Connection) -> None:
        """Whatever a column is declared as, it takes our values."""

    def execution_id_type(self, connection: sa.Connection) -> TypeEngine[Any]:  # noqa: ARG002
        return COLUMNS.id

    def create_timestamp_triggers(self, connection: sa.Connection, editable: Sequence[str]) -> None:
        for statement in (_CREATED, _UPDATED.replace("@EDITABLE", ", ".join(editable), 1)):
            connection.exec_driver_sql(statement)

    @contextmanager
    def migrating(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        """Migrate in one transaction: an upgrade that fails half-way is taken back."""
        make_file(Path(self._file.path))
        with self._lock, engine.connect() as connection, connection.begin():
            self.begin(connection)
            yield connection


def open_engine(file: LedgerFile) -> sa.Engine:
    """Make the engine for a file. Opens nothing yet, and makes nothing: see `make_file`."""
    path = Path(file.path)
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=file.path), creator=partial(connect, path)
    )
    sa.event.listen(engine, "connect", lambda connection, _record: prepare(connection))
    return with_dialect(engine, SqliteDialect(file))


def _facts(**said: Any) -> DatabaseFacts:  # noqa: ANN401 - of `DatabaseFacts`
    from .servers import REQUIREMENTS  # noqa: PLC0415 - only `doctor` asks

    product, version = "SQLite", sqlite3.sqlite_version
    return DatabaseFacts(
        product=product, version=version, requirements=REQUIREMENTS[product], **said
    )
