"""PostgreSQL 14 or newer: any number of hosts. Row locks keep them apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, Select, Update, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.addresses import LedgerServer
from cronhare.domain.diagnosis import Cause, DatabaseFacts
from cronhare.domain.execution import Execution
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import Connecting, PlanRow, remember
from ...mapping.execution_rows import NEW_COLUMNS, moment_text, new_values
from ...schema.tables import executions, outputs, plans
from ...transactions.database import connect
from ..batches import Rows, parameters_of
from . import errors
from .facts import cause_of, facts_of
from .rows import differing_rows, parameters, source_of, update_from_rows, value_of
from .schema import PostgresqlSchema
from .sessions import Sessions

#: Another process may take so long to migrate; tables may be large.
MIGRATION_SECONDS: Final = 3_600

OLDEST: Final = (14,)

_NOW: Final = select(text("clock_timestamp()"))
_NEW: Final = {name: executions.c[name].type for name in NEW_COLUMNS}
_PLAN: Final = {
    name: plans.c[name].type
    for name in (
        "scheduler_id", "next_due_at", "planned_at", "problem", "judged_by", "resume_at"
    )
}  # fmt: skip
_OUTPUT_KEY: Final = [column.name for column in outputs.primary_key]
_INSERT_OUTPUT: Final = insert(outputs)
_KEEP_OUTPUT: Final = _INSERT_OUTPUT.on_conflict_do_update(
    index_elements=_OUTPUT_KEY,
    set_={
        column.name: _INSERT_OUTPUT.excluded[column.name]
        for column in outputs.c
        if column.name not in _OUTPUT_KEY
    },
)


def open_engine(server: LedgerServer) -> Engine:
    """Make the engine for a database on one of several servers. Connects to nothing yet.

    Raises:
        ValueError: its certificates cannot be read.
    """
    sessions = Sessions(server)
    return remember(sessions.pooled(), PostgresqlDialect(sessions))


class PostgresqlDialect:
    """Satisfies `Dialect`."""

    schema = PostgresqlSchema()
    causes = errors

    @property
    def elsewhere(self) -> bool:
        """See `Dialect.elsewhere`."""
        return self._sessions.elsewhere

    def __init__(self, sessions: Sessions) -> None:
        """*sessions* makes the connections, for migrations too."""
        self._sessions = sessions

    @property
    def place(self) -> str:
        """See `Dialect.place`."""
        return str(self._sessions.server)

    def absence(self) -> None:
        """There is a server to be asked, or nobody knows."""

    def facts(self, connection: Connection) -> DatabaseFacts:
        """See `Dialect.facts`."""
        return facts_of(connection)

    def cause_of(self, error: BaseException | None) -> Cause:
        """See `Dialect.cause_of`."""
        return cause_of(error)

    def now(self, clock: ClockPort, connect: Connecting) -> datetime:  # noqa: ARG002
        """Ask the server: one clock for all hosts."""
        with connect() as connection:
            told: datetime = connection.execute(_NOW).scalar_one()
        return told

    def writing(self) -> AbstractContextManager[object]:
        """See `Dialect.writing`: the server keeps threads apart as it does hosts."""
        return nullcontext()

    def begin(self, connection: Connection) -> None:
        """The first statement begins the transaction: the driver does not commit by itself."""

    @contextmanager
    def waiting_for_locks(self, connection: Connection, seconds: int) -> Iterator[None]:
        """See `Dialect.waiting_for_locks`. 0 would be for ever; it ends with the transaction."""
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1_000 * seconds, 1)}")
        yield

    def read(
        self, connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[Row[Any]]:
        """See `Dialect.read`: the driver is fast enough."""
        return connection.execute(statement, parameters).all()

    def uncommitted(
        self,
        connect: Connecting,  # noqa: ARG002
        statement: Select[Any],  # noqa: ARG002
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> Sequence[Row[Any]]:
        """Nobody sees it here: whoever inserts the same waits, as for any lock."""
        return ()

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        """See `Dialect.insert_executions`."""
        rows = Rows.of(NEW_COLUMNS, [new_values(one) for one in wanted])
        with _numbering():
            inserted = connection.exec_driver_sql(_insert(rows.differing), parameters(rows))
        ids = {(scheduler_id, key): id_ for id_, scheduler_id, key in inserted}
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        """See `Dialect.set_plans`. In one order everywhere, so that replicas do not deadlock."""
        ordered = sorted(rows, key=lambda row: row.scheduler_id)
        fresh = Rows.of(
            _PLAN,
            [
                (
                    row.scheduler_id,
                    moment_text(row.next_due_at),
                    row.planned_at,
                    row.problem,
                    row.judged_by,
                    moment_text(row.resume_at),
                )
                for row in ordered
            ],
        )
        connection.exec_driver_sql(_set_plans(fresh.differing), parameters(fresh))

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """See `Dialect.keep_outputs`."""
        connection.execute(_KEEP_OUTPUT, list(rows))

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """See `Dialect.update_many`."""
        if rows:
            fresh = differing_rows(parameters_of(statement), rows)
            connection.execute(update_from_rows(statement, fresh.differing), parameters(fresh))

    @contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:  # noqa: ARG002
        """See `Dialect.migrating`. A whole upgrade that fails half-way is taken back."""
        own = remember(self._sessions.patient(), self)
        with connect(own, "upgrading the schema") as connection, connection.begin():
            _refuse_old_servers(connection)
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'")
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")
            yield connection


#: Those who upgrade take turns: an advisory lock is one database's.
_LOCK: Final = int.from_bytes(sha256(b"cronhare schema").digest()[:8], "big", signed=True)


def _refuse_old_servers(connection: Connection) -> None:
    version = connection.dialect.server_version_info or ()
    if version < OLDEST:
        told = ".".join(map(str, version))
        raise LedgerUnavailable(
            f"PostgreSQL {told} cannot keep the ledger: {OLDEST[0]} or newer is needed"
        )


@contextmanager
def _numbering() -> Iterator[None]:
    """Tell that no number is left: of no row it is the fault.

    Raises:
        LedgerUnavailable: it is so of our table, and not of one that somebody's trigger fills.
    """
    try:
        yield
    except SQLAlchemyError as error:
        said = errors.explain(error)
        if errors.state_of(error) != errors.NO_NUMBER_LEFT or executions.name.lower() not in said:
            raise
        raise LedgerUnavailable(said, changed_nothing=True) from error


@lru_cache(maxsize=64)
def _insert(differing: tuple[str, ...]) -> str:
    values = ", ".join(value_of(name, _NEW, differing) for name in NEW_COLUMNS)
    return (
        f"INSERT INTO SchedulerExecution ({', '.join(NEW_COLUMNS)}) "
        f"SELECT {values} {source_of(_NEW, differing)} "
        "ON CONFLICT (scheduler_id, execution_key) DO NOTHING "
        "RETURNING id, scheduler_id, execution_key"
    )


@lru_cache(maxsize=64)
def _set_plans(differing: tuple[str, ...]) -> str:
    values = ", ".join(value_of(name, _PLAN, differing) for name in _PLAN)
    changes = ", ".join(f"{name} = excluded.{name}" for name in _PLAN if name != "scheduler_id")
    return (
        f"INSERT INTO SchedulerPlan ({', '.join(_PLAN)}) "
        f"SELECT {values} {source_of(_PLAN, differing)} "
        f"ON CONFLICT (scheduler_id) DO UPDATE SET {changes}"
    )
