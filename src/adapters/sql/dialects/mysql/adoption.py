"""What MySQL and MariaDB need of their own when tables are made, or taken over."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from cronhare.adapters.sql.migrations.columns import COLLATION, ID
from cronhare.adapters.sql.migrations.upkeep import kept_up_columns

_ADOPTED = ("Scheduler", "SchedulerExecution")

_KEPT_UP = frozenset({"created_at", "updated_at"})

_REFERENCES = sa.text(
    "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "
    "WHERE CONSTRAINT_SCHEMA = DATABASE() AND TABLE_NAME = 'SchedulerExecution' "
    "AND REFERENCED_TABLE_NAME = 'Scheduler'"
)
_COLUMNS = sa.text(
    "SELECT COLUMN_NAME AS name, DATA_TYPE AS kind, COLUMN_TYPE AS full_type, "
    "CHARACTER_SET_NAME AS charset, COLLATION_NAME AS collation, "
    "CHARACTER_MAXIMUM_LENGTH AS length, DATETIME_PRECISION AS digits, "
    "IS_NULLABLE = 'YES' AS nullable, COLUMN_DEFAULT AS initial "
    "FROM information_schema.COLUMNS "
    "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :name ORDER BY ORDINAL_POSITION"
)


def is_mysql(connection: sa.Connection) -> bool:
    """Whether this is MySQL or MariaDB."""
    return connection.dialect.name == "mysql"


def of_schedule(connection: sa.Connection, **options: Any) -> list[sa.ForeignKey]:  # noqa: ANN401
    """Refer to a schedule by a foreign key, except on MySQL.

    There each claim would lock its schedule's row, and wait for whoever edits it: a person who
    leaves a transaction open would stop everything. A plan without a schedule is dropped when it
    is found, and history may outlive its schedule.
    """
    return [] if is_mysql(connection) else [sa.ForeignKey("Scheduler.id", **options)]


def id_of_executions(connection: sa.Connection) -> TypeEngine[Any]:
    """Tell the type of executions' ids: an adopted table keeps its own, and ours refer to it."""
    if not is_mysql(connection):
        return ID
    rows = connection.execute(_COLUMNS, {"name": "SchedulerExecution"})
    full_type = next(row.full_type for row in rows if row.name == "id")
    unsigned = "unsigned" in full_type
    if full_type.startswith("int"):
        return mysql.INTEGER(unsigned=unsigned)
    return mysql.BIGINT(unsigned=unsigned)


def prepare_adoption(connection: sa.Connection) -> None:
    """Let tables that were here before keep what ours keep. They stay usable meanwhile."""
    for constraint in connection.scalars(_REFERENCES).all():
        connection.exec_driver_sql(
            f"ALTER TABLE `SchedulerExecution` DROP FOREIGN KEY `{constraint}`"
        )
    for table in _ADOPTED:
        columns = connection.execute(_COLUMNS, {"name": table}).all()
        if any(column.charset not in (None, "utf8mb4") for column in columns):
            connection.exec_driver_sql(
                f"ALTER TABLE `{table}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {COLLATION}"
            )
            columns = connection.execute(_COLUMNS, {"name": table}).all()
        for column in columns:
            if change := _change(column):
                connection.exec_driver_sql(f"ALTER TABLE `{table}` MODIFY `{column.name}` {change}")
    _keep_up_times_of_their_own(connection)


def _change(column: sa.Row[Any]) -> str | None:
    """Say how a column must keep more: fractions of seconds, and keys letter by letter.

    A bit it need not be: its 0 is read as a byte, which counts as true.
    """
    null = "NULL" if column.nullable else "NOT NULL"
    if column.name in _KEPT_UP:
        return None
    if column.kind == "timestamp" or (column.kind == "datetime" and not column.digits):
        return f"DATETIME(6) {null}"
    if column.full_type == "bit(1)":
        initial = "" if column.initial is None else f" DEFAULT {column.initial}"
        return f"TINYINT(1) {null}{initial}"
    if column.name in {"execution_key", "container_id"} and column.collation != COLLATION:
        return f"{column.full_type} CHARACTER SET utf8mb4 COLLATE {COLLATION} {null}"
    return None


def _keep_up_times_of_their_own(connection: sa.Connection) -> None:
    """Let columns that were there already, under our names, be kept up as ours are."""
    there = {column.name: column for column in connection.execute(_COLUMNS, {"name": "Scheduler"})}
    for column in kept_up_columns(connection):
        known = there.get(column.name)
        if known is None or (known.kind == "timestamp" and known.digits):
            continue
        default = column.server_default.arg  # type: ignore[union-attr]
        connection.exec_driver_sql(
            f"UPDATE `Scheduler` SET `{column.name}` = UTC_TIMESTAMP()"  # noqa: S608 - ours
            f" WHERE `{column.name}` IS NULL"
        )
        connection.exec_driver_sql(
            f"ALTER TABLE `Scheduler` MODIFY `{column.name}` "
            f"TIMESTAMP(6) NOT NULL DEFAULT {default}"
        )
