"""PostgreSQL 14 or newer: any number of hosts. Row locks keep them apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Row, Update, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from cronhare.domain.addresses import LedgerServer
from cronhare.domain.diagnosis.database import DatabaseFacts, Requirements
from cronhare.domain.execution import Execution
from cronhare.ports.ledger import LedgerUnavailable

from ...dialect import PlanRow, with_dialect
from ...mapping.execution_rows import NEW_COLUMNS, new_values
from ...schema.tables import executions, outputs
from ..batches import PLAN_COLUMNS, Rows, parameters_of, plan_values
from ..server import MIGRATION_SECONDS, ServerDialect
from . import errors
from .facts import facts_of
from .requirements import REQUIREMENTS
from .rows import parameters, source_of, update_from_rows, value_of
from .schema import PostgresqlSchema
from .sessions import PostgresqlSessions

_NEW: Final = {name: executions.c[name].type for name in NEW_COLUMNS}
_LOCK: Final = int.from_bytes(sha256(b"cronhare schema").digest()[:8], "big", signed=True)
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
    sessions = PostgresqlSessions(server)
    return with_dialect(sessions.pooled_engine(), PostgresqlDialect(sessions))


class PostgresqlDialect(ServerDialect):
    """Satisfies `Dialect`."""

    schema = PostgresqlSchema()
    errors = errors
    time = select(text("clock_timestamp()"))

    def facts(self, connection: Connection) -> DatabaseFacts:
        return facts_of(connection)

    @contextmanager
    def lock_timeout(self, connection: Connection, seconds: int) -> Iterator[None]:
        """See `Dialect.lock_timeout`. 0 would be for ever; it ends with the transaction."""
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1_000 * seconds, 1)}")
        yield

    def read_uncommitted(self, *_: object) -> Sequence[Row[Any]]:
        """Nobody sees it here: whoever inserts the same waits, as for any lock."""
        return ()

    def insert_executions(self, connection: Connection, wanted: Sequence[Execution]) -> list[int]:
        rows = Rows.of(NEW_COLUMNS, [new_values(one) for one in wanted])
        with _numbering():
            inserted = connection.exec_driver_sql(_insert(rows.differing), parameters(rows))
        ids = {(scheduler_id, key): id_ for id_, scheduler_id, key in inserted}
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def set_plans(self, connection: Connection, rows: Sequence[PlanRow]) -> None:
        fresh = Rows.of(PLAN_COLUMNS, plan_values(rows))
        connection.exec_driver_sql(_set_plans(fresh.differing), parameters(fresh))

    def keep_outputs(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        connection.execute(_KEEP_OUTPUT, list(rows))

    def update_many(
        self, connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        if rows:
            fresh = Rows.of_mappings(parameters_of(statement), rows)
            connection.execute(update_from_rows(statement, fresh.differing), parameters(fresh))

    def position(self, text: ColumnElement[str], part: str) -> ColumnElement[int]:
        return func.strpos(text, part)

    def product(self, connection: Connection) -> tuple[str, Requirements]:  # noqa: ARG002
        return "PostgreSQL", REQUIREMENTS

    def take_turn(self, connection: Connection) -> None:
        """See `ServerDialect.take_turn`. An advisory lock is one database's."""
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'")
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")


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
    values = ", ".join(value_of(name, PLAN_COLUMNS, differing) for name in PLAN_COLUMNS)
    changes = ", ".join(
        f"{name} = excluded.{name}" for name in PLAN_COLUMNS if name != "scheduler_id"
    )
    return (
        f"INSERT INTO SchedulerPlan ({', '.join(PLAN_COLUMNS)}) "
        f"SELECT {values} {source_of(PLAN_COLUMNS, differing)} "
        f"ON CONFLICT (scheduler_id) DO UPDATE SET {changes}"
    )
