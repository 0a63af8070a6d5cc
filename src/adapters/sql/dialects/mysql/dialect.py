"""MySQL 8.0 and MariaDB 10.6, or newer: any number of hosts. InnoDB's row locks keep them apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    Update,
    event,
    func,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.addresses import LedgerServer
from cronhare.domain.diagnosis.database import DatabaseFacts, Requirements
from cronhare.domain.execution import Execution
from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import Connect, PlanRow, with_dialect
from ...mapping.outputs import REPLACE
from ..batches import PLAN_COLUMNS, parameters_of, plan_values
from ..server import MIGRATION_SECONDS, ServerDialect
from ..sessions import LOCK_SECONDS
from . import errors, reading
from .facts import facts_of
from .inserts import insert_executions
from .requirements import REQUIREMENTS
from .rows import Rows, source_of, update_from_rows, value_of
from .schema import MysqlSchema
from .sessions import MysqlSessions

_WAIT_FOR_LOCKS: Final = "SET innodb_lock_wait_timeout = "
_PASSING_OVER: Final = "SKIP LOCKED"
_PATIENT_SESSION: Final = "SET innodb_lock_wait_timeout = 60, lock_wait_timeout = 60"


def open_engine(server: LedgerServer) -> Engine:
    """Make the engine for a database on one of several servers. Connects to nothing yet.

    Raises:
        ValueError: its certificates cannot be read.
    """
    sessions = MysqlSessions(server)
    return with_dialect(sessions.pooled_engine(), MysqlDialect(sessions))


class MysqlDialect(ServerDialect):
    """Satisfies `Dialect`."""

    schema = MysqlSchema()
    errors = errors
    time = select(text("UTC_TIMESTAMP(6)"))

    def facts(self, connection: Connection) -> DatabaseFacts:
        return facts_of(connection)

    @contextmanager
    def lock_timeout(self, connection: Connection, seconds: int) -> Iterator[None]:
        """See `Dialect.lock_timeout`. Of 0 MySQL makes 1, with a warning."""
        waiting = _ShortWaits(seconds)
        event.listen(connection, "before_cursor_execute", waiting.before)
        try:
            yield
        except BaseException:
            with suppress(SQLAlchemyError):  # what came first counts
                waiting.end(connection)
            raise
        waiting.end(connection)

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        return reading.read_rows(connection, statement, parameters)

    def read_uncommitted(
        self, connect: Connect, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """See `Dialect.read_uncommitted`. The level is the session's next transaction's alone."""
        with connect() as connection:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
            return connection.execute(statement, parameters).all()

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        return insert_executions(connection, wanted)

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        fresh = Rows.of(PLAN_COLUMNS, plan_values(rows))
        for parameters in fresh.parameters():
            connection.exec_driver_sql(_set_plans(fresh.differing), parameters)

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        connection.execute(REPLACE, rows)

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        fresh = Rows.of_mappings(parameters_of(statement), rows)
        joined = update_from_rows(statement, fresh.differing)
        for parameters in fresh.parameters():
            connection.execute(joined, parameters)

    def position(self, text: ColumnElement[str], part: str) -> ColumnElement[int]:
        return func.instr(text, part)

    def product(self, connection: Connection) -> tuple[str, Requirements]:
        name = "MariaDB" if cast(Any, connection.dialect).is_mariadb else "MySQL"
        return name, REQUIREMENTS[name]

    def take_turn(self, connection: Connection) -> None:
        """See `ServerDialect.take_turn`. The lock goes with the connection."""
        connection.exec_driver_sql(_PATIENT_SESSION)
        lock = _lock_name(self.sessions.server.database)
        if connection.scalar(select(func.get_lock(lock, MIGRATION_SECONDS))) != 1:
            raise LedgerUnavailable("another process has been upgrading this schema for hours")


class _ShortWaits:
    """The wait for locks of one transaction, short but for what passes over others' locks anyway.

    Where it waits not at all, MariaDB fails such a SELECT at the first lock that it meets (1180).
    """

    def __init__(self, seconds: int) -> None:
        self._short = seconds
        self._set = LOCK_SECONDS

    def before(self, connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        """Set the wait that a statement is to have; most have that of the one before."""
        seconds = LOCK_SECONDS if _PASSING_OVER in statement else self._short
        if seconds != self._set and not statement.startswith(_WAIT_FOR_LOCKS):
            self._set = seconds
            connection.exec_driver_sql(f"{_WAIT_FOR_LOCKS}{seconds}")

    def end(self, connection: Connection) -> None:
        """Give a session its own wait for locks back, or give the session up."""
        if self._set == LOCK_SECONDS or connection.invalidated:
            return
        try:
            connection.exec_driver_sql(f"{_WAIT_FOR_LOCKS}{LOCK_SECONDS}")
        except SQLAlchemyError:
            connection.invalidate()
            raise


@lru_cache(maxsize=64)
def _set_plans(differing: tuple[str, ...]) -> str:
    values = {name: value_of(name, differing) for name in PLAN_COLUMNS}
    changes = ", ".join(
        f"{name} = {value}" for name, value in values.items() if name != "scheduler_id"
    )
    return (
        f"INSERT INTO `SchedulerPlan` ({', '.join(PLAN_COLUMNS)}) "  # noqa: S608 - names of our own
        f"SELECT {', '.join(values.values())} FROM {source_of(PLAN_COLUMNS, differing)} "
        f"ON DUPLICATE KEY UPDATE {changes}"
    )


def _lock_name(database: str) -> str:
    """Name the lock of one schema; locks are the server's, and their names have 64 letters."""
    return f"cronhare-{sha256(database.encode()).hexdigest()[:32]}"
