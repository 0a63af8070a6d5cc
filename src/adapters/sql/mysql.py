"""MySQL 8.0 and MariaDB 10.6, or newer: any number of hosts. InnoDB's row locks keep them apart.

Sessions depend on nothing that an administrator may have set: time zone, isolation, strictness
and character set are ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

import pymysql
from pymysql.constants import FIELD_TYPE
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    NullPool,
    Pool,
    QueuePool,
    Row,
    Select,
    Update,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.execution import Execution
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from . import mysql_errors, mysql_reading
from .mysql_reading import as_list
from .mysql_rows import Rows, parameters_of, source_of, update_from_rows, value_of
from .rows import NEW_COLUMNS, moment_text, new_values
from .tables import executions, plans
from .types import to_text
from .vendor import Connecting, PlanRow, Undone, remember

#: So long the server may take for an answer. A worker whose lease could not be renewed for two
#: thirds of its 30 s ends its tasks: a silent server has to be noticed well before.
ANSWER_SECONDS: Final = 10
CONNECT_SECONDS: Final = 5

#: So long a statement waits for rows that others hold, and nobody of ours holds any that long.
LOCK_SECONDS: Final = 3

#: A session that says nothing for so long is ended by the server, so that what a host held when it
#: vanished is free again; by default that takes eight hours. A worker at rest asks for the time
#: every 30 s.
IDLE_SECONDS: Final = 45

#: Another process may take so long to migrate; tables may be large.
MIGRATION_SECONDS: Final = 3_600

#: Strict, or too long a text would be cut in silence. Zero dates, which strict modes refuse as
#: well, may stand in rows that people wrote: the plans quote them.
SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

_SESSION: Final = (
    f"SET time_zone = '+00:00', sql_mode = '{SQL_MODE}'",
    f"SET innodb_lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = {IDLE_SECONDS}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_PATIENT_SESSION: Final = "SET innodb_lock_wait_timeout = 60, lock_wait_timeout = 60"

_NOW: Final = select(text("UTC_TIMESTAMP(6)"))
_NEWER: Final = (  # as JSON: see mysql_reading
    "SELECT JSON_ARRAY(id, scheduler_id, execution_key) FROM `SchedulerExecution` WHERE id > %s"
)
_NEWEST: Final = select(func.coalesce(func.max(executions.c.id), 0))
_OLDEST_SERVERS: Final = {"MariaDB": (10, 6), "MySQL": (8, 0)}

_NEW: Final = {name: executions.c[name].type for name in NEW_COLUMNS}
_PLAN: Final = {
    name: plans.c[name].type for name in ("scheduler_id", "next_due_at", "planned_at", "problem")
}


_CONVERSIONS: Final = {
    **pymysql.converters.conversions,
    FIELD_TYPE.DATETIME: mysql_reading.read_moment,
    FIELD_TYPE.TIMESTAMP: mysql_reading.read_moment,
}


def open_engine(url: URL) -> Engine:
    """Make the engine for a database on a server. Connects to nothing yet.

    Raises:
        ValueError: the URL names no database, or a driver that is not ours.
    """
    if "+" in url.drivername and not url.drivername.endswith("+pymysql"):
        raise ValueError(f"the driver of {url.drivername} is not known here: use mysql+pymysql://")
    if not url.database:
        raise ValueError(
            "a database URL ends with the name of the database: mysql+pymysql://host/cronhare"
        )
    engine = _engine(
        url.set(drivername="mysql+pymysql"),
        QueuePool,
        read_timeout=ANSWER_SECONDS,
        write_timeout=ANSWER_SECONDS,
    )
    return remember(engine, MysqlVendor())


def _engine(url: URL, pool: type[Pool], **timeouts: int) -> Engine:
    """Make an engine.

    Its pool resets nothing on return: our transactions end before. Nor does it test what it
    lends: a connection that was lost is found out by its first statement, thrown away with all
    that are older, and the call repeated.
    """
    pooling: dict[str, Any] = {}
    if pool is QueuePool:  # the last that was given back is lent first, so that one stays awake
        pooling = {"pool_timeout": ANSWER_SECONDS, "pool_use_lifo": True}
    engine = create_engine(
        url,
        poolclass=pool,
        pool_reset_on_return=None,
        connect_args={
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            # Without FOUND_ROWS a duplicate that is left as it is counts 0, so that the number
            # of affected rows is the number of those inserted.
            "client_flag": 0,
            "conv": _CONVERSIONS,
            **timeouts,
        },
        **pooling,
    )
    event.listen(engine, "connect", lambda connection, _record: prepare(connection))
    event.listen(engine, "handle_error", _note_loss)
    return engine


def prepare(connection: "pymysql.Connection[Any]") -> None:
    """Set up a new session."""
    with connection.cursor() as cursor:
        for statement in _SESSION:
            cursor.execute(statement)


def _note_loss(context: ExceptionContext) -> None:
    """Let the pool throw away what SQLAlchemy does not know to be lost."""
    if mysql_errors.is_lost(context.original_exception):
        context.is_disconnect = True


class MysqlVendor:
    """Satisfies `Vendor`."""

    def now(self, clock: ClockPort, connect: Connecting) -> datetime:  # noqa: ARG002
        """Ask the server: one clock for all hosts."""
        with connect() as connection:
            told: datetime = connection.execute(_NOW).scalar_one()
        return told

    def writing(self) -> AbstractContextManager[object]:
        """See `Vendor.writing`: the server keeps threads apart as it does hosts."""
        return nullcontext()

    def begin(self, connection: Connection) -> None:
        """The first statement begins the transaction: the driver does not commit by itself."""

    def held(self, statement: Select[Any], *, pass_over: bool = False) -> Select[Any]:
        """See `Vendor.held`. Holds rows of the tables in FROM, and not those of subqueries."""
        return statement.with_for_update(skip_locked=pass_over)

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """See `Vendor.read`."""
        return mysql_reading.read_rows(connection, statement, parameters)

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """See `Vendor.insert_executions`.

        What is newer than the newest before has one of our keys and is not ours only if somebody
        committed it in between. Then fewer rows were inserted than are found, and the whole
        transaction is repeated: the next time it is among the older ones.
        """
        before = connection.scalar(_NEWEST)
        rows = Rows.of(_NEW, [new_values(one) for one in wanted])
        statement = _insert_executions(rows.differing)
        inserted = sum(
            connection.exec_driver_sql(statement, parameters).rowcount
            for parameters in rows.parameters()
        )
        newer = connection.exec_driver_sql(_NEWER, (before,)).scalars()
        asked = {(one.scheduler_id, one.key) for one in wanted}
        found = {(scheduler_id, key): id_ for id_, scheduler_id, key in map(as_list, newer)}
        ids = {key: id_ for key, id_ in found.items() if key in asked}
        if len(ids) != inserted:
            raise Undone("somebody else claimed the same in this very moment")
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """See `Vendor.set_plans`. In one order everywhere, so that replicas do not deadlock."""
        ordered = sorted(rows, key=lambda row: row.scheduler_id)
        values = [
            (row.scheduler_id, moment_text(row.next_due_at), _stamp(row.planned_at), row.problem)
            for row in ordered
        ]
        fresh = Rows.of(_PLAN, values)
        for parameters in fresh.parameters():
            connection.exec_driver_sql(_set_plans(fresh.differing), parameters)

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """See `Vendor.update_many`."""
        names = parameters_of(statement)
        fresh = Rows.of(names, [[row[name] for name in names] for row in rows])
        joined = update_from_rows(statement, fresh.differing)
        for parameters in fresh.parameters():
            connection.execute(joined, parameters)

    @contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:
        """See `Vendor.migrating`. DDL commits by itself here: what was cut off is gone on with.

        On an engine of its own, without a bound for answers: a large table takes its time.
        """
        own = remember(_engine(engine.url, NullPool), self)
        lock = _lock_name(engine.url)
        with own.connect() as connection, connection.begin():
            _refuse_old_servers(connection)
            connection.exec_driver_sql(_PATIENT_SESSION)
            if connection.scalar(select(func.get_lock(lock, MIGRATION_SECONDS))) != 1:
                raise LedgerUnavailable("another process has been upgrading this schema for hours")
            yield connection  # the lock goes with the connection

    def is_undone(self, error: SQLAlchemyError, *, committing: bool) -> bool:
        """See `Vendor.is_undone`."""
        return mysql_errors.is_undone(error, committing=committing)

    def explain(self, error: SQLAlchemyError) -> str:
        """See `Vendor.explain`."""
        return mysql_errors.explain(error)

    def is_outdated(self, error: SQLAlchemyError) -> bool:
        """See `Vendor.is_outdated`."""
        return mysql_errors.is_outdated(error)


@lru_cache(maxsize=64)
def _insert_executions(differing: tuple[str, ...]) -> str:
    """Insert rows; a duplicate updates itself to itself.

    INSERT IGNORE would swallow every other fault, too, and a plain INSERT that fails in a
    transaction leaves a shared lock, over which two of them deadlock.
    """
    return (
        f"INSERT INTO `SchedulerExecution` ({', '.join(_NEW)}) "  # noqa: S608 - names of our own
        f"SELECT {', '.join(value_of(name, differing) for name in _NEW)} "
        f"FROM {source_of(_NEW, differing)} ON DUPLICATE KEY UPDATE id = `SchedulerExecution`.id"
    )


@lru_cache(maxsize=64)
def _set_plans(differing: tuple[str, ...]) -> str:
    values = {name: value_of(name, differing) for name in _PLAN}
    changes = ", ".join(
        f"{name} = {value}" for name, value in values.items() if name != "scheduler_id"
    )
    return (
        f"INSERT INTO `SchedulerPlan` ({', '.join(_PLAN)}) "  # noqa: S608 - names of our own
        f"SELECT {', '.join(values.values())} FROM {source_of(_PLAN, differing)} "
        f"ON DUPLICATE KEY UPDATE {changes}"
    )


def _stamp(planned_at: object) -> object:
    """Write a schedule's updated_at as it was read: a time, or a text that is none."""
    return to_text(planned_at) if isinstance(planned_at, datetime) else planned_at


def _lock_name(url: URL) -> str:
    """Name the lock of one schema; locks are the server's, and their names have 64 letters."""
    return f"cronhare-{sha256(str(url.database).encode()).hexdigest()[:32]}"


def _refuse_old_servers(connection: Connection) -> None:
    dialect: Any = connection.dialect
    product = "MariaDB" if dialect.is_mariadb else "MySQL"
    version = tuple(dialect.server_version_info)
    oldest = _OLDEST_SERVERS[product]
    if version < oldest:
        raise LedgerUnavailable(
            f"{product} {'.'.join(map(str, version))} cannot keep the ledger: "
            f"{'.'.join(map(str, oldest))} or newer is needed"
        )
