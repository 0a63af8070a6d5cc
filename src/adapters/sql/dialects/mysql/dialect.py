"""MySQL 8.0 and MariaDB 10.6, or newer: any number of hosts. InnoDB's row locks keep them apart."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    Update,
    func,
    select,
    text,
)

from cronhare.domain.addresses import Host, LedgerServer
from cronhare.domain.diagnosis.database import DatabaseFacts, Exhausted, Requirements
from cronhare.domain.diagnosis.link import Link
from cronhare.domain.execution import Execution
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import PlanRow, with_dialect
from ...mapping.outputs import REPLACE
from ...schema.tables import metadata, own_tables
from ..batches import PLAN_COLUMNS, plan_values, rows_of, update_many
from ..requirements import REQUIREMENTS
from ..server import MIGRATION_SECONDS, ServerDialect
from . import errors
from .schema import MysqlSchema
from .sessions import MysqlSessions
from .statements import ROWS, insert_executions, read_rows, set_plans

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

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        return read_rows(connection, statement, parameters)

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        return insert_executions(connection, wanted)

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        fresh = rows_of(PLAN_COLUMNS, plan_values(rows))
        for parameters in ROWS.parameters(fresh):
            connection.exec_driver_sql(set_plans(fresh.differing), parameters)

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        connection.execute(REPLACE, rows)

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        update_many(connection, ROWS, statement, rows)

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


def _lock_name(database: str) -> str:
    """Name the lock of one schema; locks are the server's, and their names have 64 letters."""
    return f"cronhare-{sha256(database.encode()).hexdigest()[:32]}"


# What it says of itself, for `cronhare doctor`

_VARIABLES: Final = text(
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation', "
    "'sql_mode', 'time_zone', 'character_set_connection', 'read_only', "
    "'innodb_flush_log_at_trx_commit', 'max_allowed_packet')"
)
_ENGINES: Final = text(
    "SELECT table_name, engine FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)
_NUMBERED: Final = text(
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND auto_increment >= :last ORDER BY table_name"
)


def facts_of(connection: Connection) -> DatabaseFacts:
    version = str(connection.scalar(text("SELECT VERSION()")))
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return DatabaseFacts(
        product=product,
        version=version,
        requirements=REQUIREMENTS[product],
        settings=_variables(connection),
        link=_link(connection),
        plain_tables=tuple(_plain_tables(connection)),
        exhausted=tuple(_exhausted(connection)),
    )


def _exhausted(connection: Connection) -> Iterator[Exhausted]:
    for table in own_tables(connection.scalars(_NUMBERED, {"last": LARGEST_ID})):
        yield Exhausted(table, f"ALTER TABLE {table} AUTO_INCREMENT = 1")


def _variables(connection: Connection) -> Mapping[str, str]:
    said = {str(name): str(value) for name, value in connection.execute(_VARIABLES)}
    older = said.pop("tx_isolation", None)  # MariaDB's only name for it before 11.1
    return said if older is None else {"transaction_isolation": older, **said}


def _link(connection: Connection) -> Link:
    """Tell how this very connection is encrypted, as server and driver see it."""
    session: Any = connection.connection.dbapi_connection
    [(_, version)] = connection.execute(text("SHOW SESSION STATUS LIKE 'Ssl_version'"))
    context = getattr(session, "ctx", None)
    host = Host(str(session.host), int(session.port))
    return Link(
        host=str(host),
        local=bool(session.unix_socket) or host.is_local,
        tls=str(version) or None,
        verified=bool(version) and context is not None and context.check_hostname,
    )


def _plain_tables(connection: Connection) -> Iterator[str]:
    ours = {name.lower() for name in metadata.tables}
    for name, engine in connection.execute(_ENGINES):
        if name.lower() in ours and engine != "InnoDB":
            yield name
