"""PostgreSQL 14 or newer: any number of hosts. Row locks keep them apart."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy import column, text
from sqlalchemy.dialects.postgresql import ARRAY, TEXT, TIMESTAMP, VARCHAR, insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from cronhare.adapters.addresses import LedgerServer
from cronhare.domain.addresses import Host
from cronhare.domain.execution import Execution
from cronhare.ports.inspection import Link, Requirements

from ..dialect import Columns, hurries, with_dialect
from ..tables.executions import (
    MAY_SUCCEED,
    NEW_COLUMNS,
    SUCCEEDS,
    SUCCESS,
    SUCCESS_TYPES,
    new_values,
)
from ..tables.tables import executions, outputs
from ..tables.types import IsOneOf
from .batches import FRESH, PLAN_COLUMNS, ColumnTypes, Rows, rows_of, type_name, with_columns
from .postgresql_sessions import COLLATION, PostgresqlSessions
from .servers import MIGRATION_SECONDS, REQUIREMENTS, ServerDialect

# Tables

_NOW: Final = "clock_timestamp()"

COLUMNS: Final = Columns(
    id=sa.BigInteger(),
    moment=TIMESTAMP(timezone=True),
    flag=sa.SmallInteger(),  # `SET status = 1` is refused for a BOOLEAN
    text=TEXT(collation=COLLATION),
    string=partial(VARCHAR, collation=COLLATION),
    reads_moments=True,
    kept_up=TIMESTAMP(timezone=True),
    created_at=_NOW,
    updated_at=_NOW,
    indexes_end_with_ids=False,
)

# What an edit leaves as it was is given the time, and a later one than before: a plan knows an edit
# by inequality alone. Our own writes set updated_at, from the ledger's clock: they are left alone.
_FUNCTION: Final = """
    CREATE OR REPLACE FUNCTION scheduler_updated() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN
            NEW.updated_at := greatest(
                clock_timestamp(), OLD.updated_at + interval '1 microsecond'
            );
        END IF;
        RETURN NEW;
    END $$"""
_TRIGGER: Final = (
    "CREATE TRIGGER scheduler_updated BEFORE UPDATE OF {} ON Scheduler "
    "FOR EACH ROW EXECUTE FUNCTION scheduler_updated()"
)

_COLUMNS: Final = text(
    "SELECT column_name AS name, data_type AS kind, collation_name AS collation, "
    "character_maximum_length AS length, column_default AS initial "
    "FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND table_name = :name ORDER BY ordinal_position"
)
_REFERENCES: Final = text(
    "SELECT conname FROM pg_constraint WHERE contype = 'f' "
    "AND conrelid = to_regclass('SchedulerExecution') AND confrelid = to_regclass('Scheduler')"
)
_ADOPTED: Final = ("scheduler", "schedulerexecution")


def _keep_up_times_of_their_own(connection: sa.Connection) -> None:
    """Let columns that were there already, under our names, be kept up as ours are."""
    there = {row.name for row in connection.execute(_COLUMNS, {"name": "scheduler"})}
    for name in there & {"created_at", "updated_at"}:
        connection.exec_driver_sql(
            f"UPDATE Scheduler SET {name} = {_NOW} WHERE {name} IS NULL"  # noqa: S608 - ours
        )
        connection.exec_driver_sql(
            f"ALTER TABLE Scheduler ALTER COLUMN {name} SET DEFAULT {_NOW}, "
            f"ALTER COLUMN {name} SET NOT NULL"
        )


def _changes(columns: Sequence[sa.Row[Any]]) -> Iterator[str]:
    """Say how columns must keep more: moments in a zone, flags as numbers, JSON as it was written.

    What a moment without a zone says was UTC.
    """
    for each in columns:
        alter = f'ALTER COLUMN "{each.name}"'
        match each.kind:
            case "timestamp without time zone":
                utc = f"\"{each.name}\" AT TIME ZONE 'UTC'"
                yield f"{alter} TYPE timestamptz USING {utc}"
            case "timestamp with time zone":
                yield f"{alter} TYPE timestamptz"
            case "boolean":
                yield f"{alter} DROP DEFAULT"
                yield f'{alter} TYPE smallint USING "{each.name}"::int'
                if each.initial in {"true", "false"}:
                    yield f"{alter} SET DEFAULT {int(each.initial == 'true')}"
            case "json" | "jsonb":
                yield f'{alter} TYPE text COLLATE "{COLLATION}"'
            case "character varying" if each.collation != COLLATION:
                length = "" if each.length is None else f"({each.length})"
                yield f'{alter} TYPE varchar{length} COLLATE "{COLLATION}"'


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


def open_engine(server: LedgerServer) -> sa.Engine:
    """Make the engine for a database on one of several servers. Connects to nothing yet."""
    sessions = PostgresqlSessions(server)
    return with_dialect(sessions.pooled_engine(), PostgresqlDialect(sessions))


@compiles(IsOneOf, "postgresql")
def _is_one_of(element: IsOneOf, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    """Send ids as one array: psycopg adapts each parameter, which takes longer than all else."""
    id_, ids = element.clauses
    array = sa.bindparam(cast(Any, ids).key, type_=ARRAY(sa.BigInteger, dimensions=1))
    return compiler.process(id_ == sa.any_(array), **options)


# Rows of parameters

_PLACE: Final = "place"
_TYPES: Final[Mapping[type[TypeEngine[Any]], str]] = {
    sa.DateTime: "timestamptz",
    sa.Integer: "bigint",
    sa.Float: "double precision",
    sa.String: "text",
}


def _parameters(rows: Rows) -> Iterator[dict[str, Any]]:
    if rows.differences:
        arrays = zip(*rows.differences, strict=True) if rows.differing else ()
        yield {**rows.agreed, **dict(zip(rows.differing, map(list, arrays), strict=True))}


def _join(statement: sa.Update, columns: ColumnTypes) -> sa.Update:
    arrays = [
        text(f"CAST(:{name} AS {type_name(kind, _TYPES)}[])") for name, kind in columns.items()
    ]
    given = [column(f"given_{name}", kind) for name, kind in columns.items()]
    fresh = sa.func.unnest(*arrays).table_valued(*given, name=FRESH).render_derived()
    return with_columns(statement, {name: fresh.c[f"given_{name}"] for name in columns})


def _select(columns: ColumnTypes, differing: Collection[str]) -> str:
    values = ", ".join(
        f"{FRESH}.{name}" if name in differing else f"%({name})s::{type_name(kind, _TYPES)}"
        for name, kind in columns.items()
    )
    if not differing:
        return f"SELECT {values}"
    arrays = ", ".join(f"%({name})s::{type_name(columns[name], _TYPES)}[]" for name in differing)
    names = ", ".join((*differing, _PLACE))
    rows = f"unnest({arrays}) WITH ORDINALITY AS {FRESH} ({names})"
    return f"SELECT {values} FROM {rows} ORDER BY {_PLACE}"  # noqa: S608 - names of our own


@lru_cache(maxsize=64)
def _insert(differing: tuple[str, ...]) -> str:
    return (
        f"INSERT INTO SchedulerExecution ({', '.join(NEW_COLUMNS)}) "
        f"{_select(_NEW, differing)} "
        "ON CONFLICT (scheduler_id, execution_key) DO NOTHING "
        "RETURNING id, scheduler_id, execution_key"
    )


@lru_cache(maxsize=64)
def _set_plans(differing: tuple[str, ...]) -> str:
    changes = ", ".join(
        f"{name} = excluded.{name}" for name in PLAN_COLUMNS if name != "scheduler_id"
    )
    return (
        f"INSERT INTO SchedulerPlan ({', '.join(PLAN_COLUMNS)}) "
        f"{_select(PLAN_COLUMNS, differing)} "
        f"ON CONFLICT (scheduler_id) DO UPDATE SET {changes}"
    )


@lru_cache(maxsize=64)
def _succeed(differing: tuple[str, ...]) -> str:
    said = ", ".join(f"{name} = one.{name}" for name in SUCCESS[1:])
    return (
        f"WITH one ({', '.join(SUCCESS)}) "  # noqa: S608 - names of our own
        f"AS ({_select(SUCCESS_TYPES, differing)}), "
        "free AS (SELECT e.id FROM SchedulerExecution AS e JOIN one ON one.id = e.id "
        f"WHERE {MAY_SUCCEED.format(e='e', node='%(node)s')} FOR UPDATE OF e SKIP LOCKED), "
        f"ended AS (UPDATE SchedulerExecution AS e SET {SUCCEEDS.format(e='e')}, "
        "finished_at = %(now)s::timestamptz FROM free WHERE e.id = free.id) "
        "UPDATE ExecutionAttempt AS a "
        f"SET finished_at = %(now)s::timestamptz, ending = 'succeeded', {said} "
        "FROM one JOIN free ON free.id = one.id "
        "WHERE a.execution_id = one.id AND a.attempt = 1"
    )


# What it says of itself, for `cronhare doctor`

_SETTINGS: Final = text(
    "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('server_encoding', "
    "'transaction_read_only', 'synchronous_commit', 'fsync', 'full_page_writes', "
    "'max_connections') UNION ALL "
    "SELECT 'in_recovery', CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END"
)
_TLS: Final = text("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl")


# The dialect


class PostgresqlDialect(ServerDialect):
    """Satisfies `Dialect`."""

    time = sa.select(text("clock_timestamp()"))
    parameters = staticmethod(_parameters)
    join = staticmethod(_join)
    plan_statement = staticmethod(_set_plans)
    success_statement = staticmethod(_succeed)
    version = "SHOW server_version"
    settings = _SETTINGS

    def insert_executions(
        self, connection: sa.Connection, wanted: Sequence[Execution]
    ) -> list[int]:
        if hurries(connection):
            connection.exec_driver_sql("SET LOCAL lock_timeout = '20ms'")
        rows = rows_of(NEW_COLUMNS, [new_values(one) for one in wanted])
        ids = {}
        for parameters in _parameters(rows):
            inserted = connection.exec_driver_sql(_insert(rows.differing), parameters)
            ids = {(scheduler_id, key): id_ for id_, scheduler_id, key in inserted}
        return [ids.pop((one.scheduler_id, one.key), 0) for one in wanted]

    def keep_outputs(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        connection.execute(_KEEP_OUTPUT, list(rows))

    def product(self, connection: sa.Connection) -> tuple[str, Requirements]:  # noqa: ARG002
        return "PostgreSQL", REQUIREMENTS["PostgreSQL"]

    def take_turn(self, connection: sa.Connection) -> None:
        """Take an advisory lock, which is one database's."""
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'")
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")

    def prepare_adoption(self, connection: sa.Connection) -> None:
        for constraint in connection.scalars(_REFERENCES).all():
            connection.exec_driver_sql(
                f'ALTER TABLE SchedulerExecution DROP CONSTRAINT "{constraint}"'
            )
        for table in _ADOPTED:
            changes = list(_changes(connection.execute(_COLUMNS, {"name": table}).all()))
            if changes:
                connection.exec_driver_sql(f"ALTER TABLE {table} {', '.join(changes)}")
        _keep_up_times_of_their_own(connection)

    def execution_id_type(self, connection: sa.Connection) -> TypeEngine[Any]:
        rows = connection.execute(_COLUMNS, {"name": "schedulerexecution"})
        kind = next(row.kind for row in rows if row.name == "id")
        return sa.Integer() if kind == "integer" else COLUMNS.id

    def create_timestamp_triggers(self, connection: sa.Connection, editable: Sequence[str]) -> None:
        connection.exec_driver_sql(_FUNCTION)
        connection.exec_driver_sql(_TRIGGER.format(", ".join(editable)))

    def link(self, connection: sa.Connection) -> Link:
        session: Any = connection.connection.dbapi_connection
        info = session.info
        on_socket = info.host.startswith("/")
        host = Host("localhost" if on_socket else info.host, info.port)
        version = connection.scalar(_TLS)
        return Link(
            host=str(host),
            local=on_socket or host.is_local,
            tls=version,
            verified=bool(version) and info.get_parameters().get("sslmode") == "verify-full",
        )
