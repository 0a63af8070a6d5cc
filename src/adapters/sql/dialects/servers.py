"""What all databases on servers share: sessions with one of the hosts, and most of `Dialect`."""

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cronhare.adapters.addresses import LedgerServer
from cronhare.application.logs import say
from cronhare.domain.addresses import Host
from cronhare.ports import LedgerUnavailable
from cronhare.ports.inspection import DatabaseFacts, Link, Need, Requirements, Severity
from cronhare.ports.system import ClockPort

from ..database import connect
from ..dialect import Connect, Errors, Meaning, dialect_of, with_dialect
from ..tables.executions import SUCCESS
from ..tables.types import named_rows, to_text
from .batches import PLAN_COLUMNS, Join, Rows, as_texts, joined, parameters_of, rows_of

log = logging.getLogger(__name__)

#: A server may take so long for an answer. A worker whose lease could not be renewed for two thirds
#: of its 30 s ends its tasks: a silent server has to be noticed well before.
ANSWER_SECONDS: Final = 10
CONNECT_SECONDS: Final = 5

#: Of several hosts a silent one is passed over sooner: the others wait to be asked.
ONE_OF_SEVERAL_SECONDS: Final = 2

#: A statement waits so long for rows that others hold; MySQL knows no shorter wait. Then a batch
#: goes on in halves, so each level of them costs as much.
LOCK_SECONDS: Final = 1

#: The server ends a session of MySQL's, or a transaction of PostgreSQL's, that is silent for so
#: long, and with it the locks of a host that vanished. By default it does after eight hours, or
#: never. A worker at rest asks for the time every 30 s.
IDLE_SECONDS: Final = 45

#: Another process may take so long to migrate: tables may be large.
MIGRATION_SECONDS: Final = 3_600


def original(error: BaseException | None) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


class ServerErrors(Errors, Protocol):
    """What the errors of one kind of server mean."""

    def explain(self, error: SQLAlchemyError) -> str:
        if isinstance(error, PoolTimeout):
            return f"all connections of this process are in use ({error})"
        advice, said = self.advice_for(error)
        return f"{advice} ({said})" if advice else said

    @abstractmethod
    def advice_for(self, error: SQLAlchemyError) -> tuple[str | None, str]:
        """Say what to do, where that is known, and what the server or the driver said."""

    @abstractmethod
    def said_by(self, error: BaseException | None) -> str:
        """Give the server's or the driver's own words, without the user."""

    @abstractmethod
    def none_usable(self, refusals: Sequence[Exception], text: str) -> Exception:
        """Make the driver's error for several hosts that all failed."""


class Sessions(ABC):
    """Opens sessions with one of the hosts of a database, and makes engines that keep them."""

    errors: ServerErrors

    def __init__(self, server: LedgerServer) -> None:
        self.server = server
        self.has_other_hosts = len(server.hosts) > 1
        #: How long one host may take to connect.
        self.connect_seconds = ONE_OF_SEVERAL_SECONDS if self.has_other_hosts else CONNECT_SECONDS
        self._passed_over = set[Host]()

    @abstractmethod
    def open(self, host: Host, answer_seconds: int | None) -> Any:  # noqa: ANN401 - the driver's own
        """Open a session with one host, whose answers may take *answer_seconds* each."""

    @abstractmethod
    def make_engine(self, **options: Any) -> sa.Engine:  # noqa: ANN401 - SQLAlchemy's own
        """Make an engine. Its URL names the kind of database alone, so it can show no secret."""

    def pooled_engine(self, **options: Any) -> sa.Engine:  # noqa: ANN401 - SQLAlchemy's own
        """Make an engine that keeps its sessions. The last that was given back is lent first.

        So one stays awake. What is lent is not tested: the first statement on a session that was
        lost fails, the pool drops it with all that are older, and the call is repeated.
        """
        options |= {"pool_timeout": ANSWER_SECONDS, "pool_use_lifo": True}
        return self._engine(ANSWER_SECONDS, poolclass=sa.QueuePool, **options)

    def unbounded_engine(self) -> sa.Engine:
        """Make an engine without a bound for answers, whose sessions end with their use."""
        return self._engine(None, poolclass=sa.NullPool)

    def _engine(self, answer_seconds: int | None, **pooling: Any) -> sa.Engine:  # noqa: ANN401
        """Make an engine. Nothing is reset on return: our transactions end before."""
        engine = self.make_engine(
            creator=partial(self._connect, answer_seconds),
            pool_reset_on_return=None,
            hide_parameters=True,
            **pooling,
        )
        sa.event.listen(engine, "handle_error", self._drop_session)
        return engine

    def _connect(self, answer_seconds: int | None) -> Any:  # noqa: ANN401 - the driver's own
        """Open a session with the only host, or with any that takes writes, tried at random."""
        hosts = self.server.hosts
        if len(hosts) == 1:
            return self.open(hosts[0], answer_seconds)
        refusals = dict[Host, Exception]()
        for host in random.sample(hosts, len(hosts)):
            try:
                session = self.open(host, answer_seconds)
            except Exception as error:  # noqa: BLE001 - whatever answers there
                refusals[host] = error
                if host not in self._passed_over:
                    self._passed_over.add(host)
                    text = f"Database host {host} is passed over: {self.errors.said_by(error)}"
                    say(log, logging.WARNING, "database.passed-over", text)
            else:
                if host in self._passed_over:
                    self._passed_over.discard(host)
                    text = f"Database host {host} is used again"
                    say(log, logging.INFO, "database.back", text)
                return session
        told = "; ".join(f"{host}: {self.errors.said_by(refusals[host])}" for host in hosts)
        text = f"none of the hosts can be used: {told}"
        raise self.errors.none_usable([*refusals.values()], text)

    def _drop_session(self, context: sa.ExceptionContext) -> None:
        """Let the pool drop sessions of no use of which SQLAlchemy does not know."""
        meaning = self.errors.meaning_of(context.original_exception)
        if meaning in {Meaning.LOST, Meaning.NO_WRITES}:
            context.is_disconnect = True


class ServerDialect(ABC):
    """The part of `Dialect` that is the same for all servers. Row locks keep replicas apart."""

    #: Asks the server for its time.
    time: sa.Select[Any]

    #: Gives the parameters of each statement that rows take; none for no rows.
    parameters: Callable[[Rows], Iterator[dict[str, Any]]]

    join: Join

    #: Write a statement for the columns that differ in rows: it inserts or replaces plans, or ends
    #: attempts that succeeded.
    plan_statement: Callable[[tuple[str, ...]], str]
    success_statement: Callable[[tuple[str, ...]], str]

    #: What it says of itself, for `cronhare doctor`.
    version: str
    settings: sa.TextClause

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    @property
    def errors(self) -> ServerErrors:
        return self.sessions.errors

    @property
    def place(self) -> str:
        return str(self.sessions.server)

    def missing(self) -> None:  # noqa: B027
        """Only the server itself can tell."""

    def now(self, clock: ClockPort, connect: Connect) -> datetime:  # noqa: ARG002
        """Ask the server: one clock for all hosts."""
        with connect() as connection:
            time: datetime = connection.execute(self.time).scalar_one()
        return time

    def write_lock(self) -> AbstractContextManager[object]:
        """The server keeps threads apart as it does hosts."""
        return nullcontext()

    def begin(self, connection: sa.Connection) -> None:  # noqa: B027
        """The first statement begins the transaction: the driver does not commit by itself."""

    def autocommitting(self, engine: sa.Engine) -> sa.Engine:
        options = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}
        other = with_dialect(self.sessions.pooled_engine(**options), dialect_of(engine))
        sa.event.listen(engine, "engine_disposed", lambda _: other.dispose())
        return other

    def read(
        self, connection: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[sa.Row[Any]]:
        return named_rows(connection, statement, parameters)

    def set_plans(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        fresh = rows_of(PLAN_COLUMNS, [as_texts(row) for row in rows])
        for parameters in self.parameters(fresh):
            connection.exec_driver_sql(self.plan_statement(fresh.differing), parameters)

    def update_many(
        self, connection: sa.Connection, statement: sa.Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        names = parameters_of(statement, connection.dialect)
        fresh = rows_of(names, [[row[name] for name in names] for row in rows])
        if fresh.differing:
            statement = joined(self.join, statement, connection.dialect, fresh.differing)
        for parameters in self.parameters(fresh):
            connection.execute(statement, parameters)

    def succeed(
        self,
        connection: sa.Connection,
        ends: Sequence[tuple[Any, ...]],
        *,
        now: datetime,
        node: str,
    ) -> int:
        rows, known = rows_of(SUCCESS, ends), {"now": to_text(now), "node": node}
        statement = self.success_statement(rows.differing)
        return sum(
            connection.exec_driver_sql(statement, {**parameters, **known}).rowcount
            for parameters in self.parameters(rows)
        )

    def facts(self, connection: sa.Connection) -> DatabaseFacts:
        product, requirements = self.product(connection)
        return DatabaseFacts(
            product=product,
            version=str(connection.exec_driver_sql(self.version).scalar()),
            requirements=requirements,
            settings={str(name): str(value) for name, value in connection.execute(self.settings)},
            link=self.link(connection),
        )

    @contextmanager
    def migrating(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        """Migrate without a bound for answers: tables may be large."""
        own = with_dialect(self.sessions.unbounded_engine(), dialect_of(engine))
        with connect(own, "upgrading the schema") as connection, connection.begin():
            product, required = self.product(connection)
            version = tuple(connection.dialect.server_version_info or ())
            if version < required.oldest:
                found, oldest = (".".join(map(str, each)) for each in (version, required.oldest))
                raise LedgerUnavailable(
                    f"{product} {found} cannot keep the ledger: {oldest} or newer is needed"
                )
            self.take_turn(connection)
            yield connection

    @abstractmethod
    def take_turn(self, connection: sa.Connection) -> None:
        """Wait for `MIGRATION_SECONDS` until no other process upgrades this schema.

        Afterwards DDL waits for 60 s for what others hold.
        """

    @abstractmethod
    def link(self, connection: sa.Connection) -> Link:
        """Tell how this very connection is encrypted, as server and driver see it."""

    @abstractmethod
    def product(self, connection: sa.Connection) -> tuple[str, Requirements]:
        """Tell which product it is, and what that must be."""


#: A thousand schedules with large params travel as one parameter.
SMALLEST_PACKET: Final = 16 * 2**20

#: What one process keeps open at most, several times over.
FEW_CONNECTIONS: Final = 50

_LAST_CLAIMS: Final = "the last claims may be gone, and their instants run twice"
_NOTHING: Final = "nothing can be claimed or recorded"


def _is(*allowed: str) -> Callable[[str], bool]:
    return lambda said: said in allowed


def _at_least(least: int) -> Callable[[str], bool]:
    return lambda said: not said.isdigit() or int(said) >= least


_MYSQL: Final = (
    Need(
        "read_only",
        lambda said: said.upper() in {"0", "OFF"},
        _NOTHING,
        "name the primary in CRON_DATABASE_URL, or `SET GLOBAL read_only = 0`",
    ),
    Need(
        "innodb_flush_log_at_trx_commit",
        _is("1"),
        f"after a power loss {_LAST_CLAIMS}",
        "`SET GLOBAL innodb_flush_log_at_trx_commit = 1`, and in the server's configuration",
        Severity.WARNING,
    ),
    Need(
        "max_allowed_packet",
        _at_least(SMALLEST_PACKET),
        "a busy minute with large params may not fit into one statement",
        f"`SET GLOBAL max_allowed_packet = {SMALLEST_PACKET}`, and in its configuration",
        Severity.WARNING,
    ),
)

_POSTGRESQL: Final = (
    Need(
        "server_encoding",
        _is("UTF8"),
        "params and output with other letters than its own cannot be kept",
        "make the database anew: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`",
    ),
    Need(
        "in_recovery",
        _is("off"),
        f"it is a standby: {_NOTHING}",
        "name the primary in CRON_DATABASE_URL, or all hosts: the primary is found",
    ),
    Need(
        "transaction_read_only",
        _is("off"),
        _NOTHING,
        "name the primary, or `ALTER DATABASE name RESET default_transaction_read_only`",
    ),
    Need(
        "synchronous_commit",
        lambda said: said != "off",
        f"after a crash {_LAST_CLAIMS}",
        "`ALTER DATABASE name SET synchronous_commit = on`",
        Severity.WARNING,
    ),
    *(
        Need(
            setting,
            _is("on"),
            "a power loss may damage the whole database",
            f"`ALTER SYSTEM SET {setting} = on`, and reload",
        )
        for setting in ("fsync", "full_page_writes")
    ),
    Need(
        "max_connections",
        _at_least(FEW_CONNECTIONS),
        "some processes may find no connection: each keeps five, and up to fifteen",
        "raise max_connections, and restart the server",
        Severity.WARNING,
    ),
)

_SQLITE: Final = (
    Need(
        "journal_mode",
        _is("wal"),
        "readers and the writer wait for each other",
        "keep the file on a local disk: WAL needs shared memory, which network disks lack",
        Severity.WARNING,
    ),
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
