"""PostgreSQL's tables: the types of columns, how tables are made and adopted, their triggers."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TEXT, TIMESTAMP, VARCHAR
from sqlalchemy.types import TypeEngine

from ...dialect import Columns

#: Texts are compared byte by byte, and an index of them outlives an upgrade of the system's own
#: collations.
COLLATION: Final = "C"

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

_COLUMNS: Final = sa.text(
    "SELECT column_name AS name, data_type AS kind, collation_name AS collation, "
    "character_maximum_length AS length, column_default AS initial "
    "FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND table_name = :name ORDER BY ordinal_position"
)
_REFERENCES: Final = sa.text(
    "SELECT conname FROM pg_constraint WHERE contype = 'f' "
    "AND conrelid = to_regclass('SchedulerExecution') AND confrelid = to_regclass('Scheduler')"
)
_ADOPTED: Final = ("scheduler", "schedulerexecution")


def prepare_adoption(connection: sa.Connection) -> None:
    for constraint in connection.scalars(_REFERENCES).all():
        connection.exec_driver_sql(f'ALTER TABLE SchedulerExecution DROP CONSTRAINT "{constraint}"')
    for table in _ADOPTED:
        changes = list(_changes(connection.execute(_COLUMNS, {"name": table}).all()))
        if changes:
            connection.exec_driver_sql(f"ALTER TABLE {table} {', '.join(changes)}")
    _keep_up_times_of_their_own(connection)


def execution_id_type(connection: sa.Connection) -> TypeEngine[Any]:
    rows = connection.execute(_COLUMNS, {"name": "schedulerexecution"})
    kind = next(row.kind for row in rows if row.name == "id")
    return sa.Integer() if kind == "integer" else COLUMNS.id


def create_timestamp_triggers(connection: sa.Connection, editable: Sequence[str]) -> None:
    connection.exec_driver_sql(_FUNCTION)
    connection.exec_driver_sql(_TRIGGER.format(", ".join(editable)))


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
    for column in columns:
        alter = f'ALTER COLUMN "{column.name}"'
        match column.kind:
            case "timestamp without time zone":
                utc = f"\"{column.name}\" AT TIME ZONE 'UTC'"
                yield f"{alter} TYPE timestamptz USING {utc}"
            case "timestamp with time zone":
                yield f"{alter} TYPE timestamptz"
            case "boolean":
                yield f"{alter} DROP DEFAULT"
                yield f'{alter} TYPE smallint USING "{column.name}"::int'
                if column.initial in {"true", "false"}:
                    yield f"{alter} SET DEFAULT {int(column.initial == 'true')}"
            case "json" | "jsonb":
                yield f'{alter} TYPE text COLLATE "{COLLATION}"'
            case "character varying" if column.collation != COLLATION:
                length = "" if column.length is None else f"({column.length})"
                yield f'{alter} TYPE varchar{length} COLLATE "{COLLATION}"'
