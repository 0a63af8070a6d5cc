"""What the dialects of all databases on servers share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, Select, Update
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.diagnosis.database import Requirements
from cronhare.ports.errors import LedgerUnavailable
from cronhare.ports.system import ClockPort

from ..dialect import Connect, Meaning, PlanRow, dialect_of, with_dialect
from ..schema.named_rows import named_rows
from ..transactions.database import connect
from .batches import PLAN_COLUMNS, RowSource, plan_values, rows_of, update_many
from .sessions import ServerErrors, Sessions

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
