"""What a server must be and allow: version, settings, privileges."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, Select, Update
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.diagnosis.database import ASKED_FOR, Need, Requirements
from cronhare.domain.diagnosis.finding import Severity
from cronhare.ports.errors import LedgerUnavailable
from cronhare.ports.system import ClockPort

from ..database import connect
from ..dialect import Connect, Meaning, PlanRow, dialect_of, with_dialect
from ..schema.types import named_rows
from .batches import PLAN_COLUMNS, RowSource, plan_values, rows_of, update_many
from .sessions import ServerErrors, Sessions

#: A thousand schedules with large params travel as one parameter.
SMALLEST_PACKET: Final = 16 * 2**20

#: What one process keeps open at most, several times over.
FEW_CONNECTIONS: Final = 50

_LAST_CLAIMS: Final = "the last claims may be gone, and their instants run twice"
_NOTHING: Final = "nothing can be claimed or recorded"


def _must(setting: str, holds: Callable[[str], bool], without: str, cure: str = ASKED_FOR) -> Need:
    return Need(setting=setting, holds=holds, without=without, cure=cure)


def _should(setting: str, holds: Callable[[str], bool], without: str, cure: str) -> Need:
    return Need(setting=setting, holds=holds, without=without, cure=cure, severity=Severity.WARNING)


def _is(*allowed: str) -> Callable[[str], bool]:
    return lambda said: said in allowed


def _at_least(least: int) -> Callable[[str], bool]:
    return lambda said: not said.isdigit() or int(said) >= least


_MYSQL: Final = (
    _must(
        "transaction_isolation",
        lambda said: said.upper() == "READ-COMMITTED",
        "claims may deadlock, and decide by what is outdated",
    ),
    _must(
        "sql_mode",
        lambda said: bool({"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & {*said.split(",")}),
        "it is not strict: what does not fit is cut off without a word",
    ),
    _must("time_zone", _is("+00:00", "UTC"), "moments would shift"),
    _must(
        "character_set_connection",
        lambda said: said.startswith("utf8mb4"),
        "params and output with an emoji cannot be kept",
    ),
    _must(
        "read_only",
        lambda said: said.upper() in {"0", "OFF"},
        _NOTHING,
        "name the primary in CRON_DATABASE_URL, or `SET GLOBAL read_only = 0`",
    ),
    _should(
        "innodb_flush_log_at_trx_commit",
        _is("1"),
        f"after a power loss {_LAST_CLAIMS}",
        "`SET GLOBAL innodb_flush_log_at_trx_commit = 1`, and in the server's configuration",
    ),
    _should(
        "max_allowed_packet",
        _at_least(SMALLEST_PACKET),
        "a busy minute with large params may not fit into one statement",
        f"`SET GLOBAL max_allowed_packet = {SMALLEST_PACKET}`, and in its configuration",
    ),
)

_POSTGRESQL: Final = (
    _must(
        "transaction_isolation",
        _is("read committed"),
        "a replica would fail over what others do meanwhile",
    ),
    _must("TimeZone", lambda said: said.upper() in {"UTC", "ETC/UTC"}, "moments would shift"),
    _must(
        "server_encoding",
        _is("UTF8"),
        "params and output with other letters than its own cannot be kept",
        "make the database anew: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`",
    ),
    _must(
        "in_recovery",
        _is("off"),
        f"it is a standby: {_NOTHING}",
        "name the primary in CRON_DATABASE_URL, or all hosts: the primary is found",
    ),
    _must(
        "transaction_read_only",
        _is("off"),
        _NOTHING,
        "name the primary, or `ALTER DATABASE name RESET default_transaction_read_only`",
    ),
    _should(
        "synchronous_commit",
        lambda said: said != "off",
        f"after a crash {_LAST_CLAIMS}",
        "`ALTER DATABASE name SET synchronous_commit = on`",
    ),
    *(
        _must(
            setting,
            _is("on"),
            "a power loss may damage the whole database",
            f"`ALTER SYSTEM SET {setting} = on`, and reload",
        )
        for setting in ("fsync", "full_page_writes")
    ),
    _should(
        "max_connections",
        _at_least(FEW_CONNECTIONS),
        "some processes may find no connection: each keeps five, and up to fifteen",
        "raise max_connections, and restart the server",
    ),
)

_SQLITE: Final = (
    _should(
        "journal_mode",
        _is("wal"),
        "readers and the writer wait for each other",
        "keep the file on a local disk: WAL needs shared memory, which network disks lack",
    ),
    _must("synchronous", _is("2", "3"), f"after a power loss {_LAST_CLAIMS}"),
    _must("foreign_keys", _is("1"), "deleted rows would leave others behind"),
)

_INNODB: Final = "ALTER TABLE name ENGINE = InnoDB"

#: By the product: the first versions that can do what the statements ask for.
REQUIREMENTS: Final = {
    "SQLite": Requirements(oldest=(3, 24), lack="knows no INSERT … ON CONFLICT", needs=_SQLITE),
    "MariaDB": Requirements(
        oldest=(10, 6),
        lack="knows no SKIP LOCKED: replicas would wait for each other",
        needs=_MYSQL,
        transactions=_INNODB,
    ),
    "MySQL": Requirements(
        oldest=(8, 0, 4),
        lack="knows no SKIP LOCKED or no JSON_TABLE",
        needs=_MYSQL,
        transactions=_INNODB,
    ),
    "PostgreSQL": Requirements(
        oldest=(14,), lack="was never tried: 14 is the oldest that is", needs=_POSTGRESQL
    ),
}


#: Another process may take so long to migrate: tables may be large.
MIGRATION_SECONDS: Final = 3_600


class ServerDialect(ABC):
    """The part of `Dialect` that is the same for all servers. Row locks keep replicas apart."""

    errors: ServerErrors

    #: Asks the server for its time.
    time: Select[Any]

    #: How it makes rows of parameters.
    rows: RowSource

    def __init__(self, sessions: Sessions[Any]) -> None:
        """*sessions* makes the connections, for migrations too."""
        self.sessions = sessions

    @property
    def place(self) -> str:
        return str(self.sessions.server)

    def missing(self) -> None:  # noqa: B027
        """There is a server to be asked, or nobody knows."""

    def now(self, clock: ClockPort, connect: Connect) -> datetime:  # noqa: ARG002
        """Ask the server: one clock for all hosts."""
        with connect() as connection:
            time: datetime = connection.execute(self.time).scalar_one()
        return time

    def write_lock(self) -> AbstractContextManager[object]:
        """The server keeps threads apart as it does hosts."""
        return nullcontext()

    def begin(self, connection: Connection) -> None:  # noqa: B027
        """The first statement begins the transaction: the driver does not commit by itself."""

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        return named_rows(connection, statement, parameters)

    def meaning_of(self, error: SQLAlchemyError) -> Meaning:
        """Of several hosts another, which the next session may find, may take it."""
        meaning = self.errors.meaning_of(error)
        is_elsewhere = meaning is Meaning.READ_ONLY and self.sessions.has_other_hosts
        return Meaning.TAKEN_BACK if is_elsewhere else meaning

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        fresh = rows_of(PLAN_COLUMNS, plan_values(rows))
        for parameters in self.rows.parameters(fresh):
            connection.exec_driver_sql(self.plan_statement(fresh.differing), parameters)

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        update_many(connection, self.rows, statement, rows)

    @abstractmethod
    def plan_statement(self, differing: tuple[str, ...]) -> str:
        """Write the statement that inserts or replaces plans, whose *differing* columns differ."""

    @contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:
        """Migrate without a bound for answers: tables may be large.

        Raises:
            LedgerUnavailable: the server is too old, or another process has been at it for hours.
        """
        own = with_dialect(self.sessions.unbounded_engine(), dialect_of(engine))
        with connect(own, "upgrading the schema") as connection, connection.begin():
            self._refuse_old_server(connection)
            self.take_turn(connection)
            yield connection

    @abstractmethod
    def take_turn(self, connection: Connection) -> None:
        """Wait for `MIGRATION_SECONDS` until no other process upgrades this schema.

        Afterwards DDL waits for 60 s for what others hold.
        """

    @abstractmethod
    def product(self, connection: Connection) -> tuple[str, Requirements]:
        """Tell which product it is, and what that must be."""

    def _refuse_old_server(self, connection: Connection) -> None:
        product, requirements = self.product(connection)
        version = tuple(connection.dialect.server_version_info or ())
        if version < requirements.oldest:
            raise LedgerUnavailable(
                f"{product} {'.'.join(map(str, version))} cannot keep the ledger: "
                f"{'.'.join(map(str, requirements.oldest))} or newer is needed"
            )
