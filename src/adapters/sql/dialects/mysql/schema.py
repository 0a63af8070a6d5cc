"""The tables of MySQL and MariaDB: the types of columns, and how tables are made and adopted."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from ...dialect import Columns

#: A text column says its collation: an adopted table may have any, and a key or a name is the same
#: only if every letter is.
COLLATION: Final = "utf8mb4_bin"

COLUMNS: Final = Columns(
    id=sa.BigInteger(),
    moment=mysql.DATETIME(fsp=6),
    flag=sa.Boolean(),
    text=mysql.MEDIUMTEXT(collation=COLLATION),  # MySQL's own TEXT ends at 64 KB
    string=partial(mysql.VARCHAR, collation=COLLATION),
    reads_moments=True,
    # Not DATETIME: a TIMESTAMP is UTC whatever the time zone of the session that edits; an edit
    # hours ahead would keep a schedule from running until then. Servers that end it in 2038 have a
    # way to go until this table must change.
    kept_up=mysql.TIMESTAMP(fsp=6),
    created_at="CURRENT_TIMESTAMP(6)",
    updated_at="CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
    has_partial_indexes=False,
)

_ADOPTED = ("Scheduler", "SchedulerExecution")

_KEPT_UP = {"created_at": COLUMNS.created_at, "updated_at": COLUMNS.updated_at}

_REFERENCES = sa.text(
    "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "
    "WHERE CONSTRAINT_SCHEMA = DATABASE() AND TABLE_NAME = 'SchedulerExecution' "
    "AND REFERENCED_TABLE_NAME = 'Scheduler'"
)
_COLUMNS = sa.text(
    "SELECT COLUMN_NAME AS name, DATA_TYPE AS kind, COLUMN_TYPE AS full_type, "
    "CHARACTER_SET_NAME AS charset, COLLATION_NAME AS collation, "
    "DATETIME_PRECISION AS digits, IS_NULLABLE = 'YES' AS nullable, "
    "COLUMN_DEFAULT AS initial "
    "FROM information_schema.COLUMNS "
    "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :name ORDER BY ORDINAL_POSITION"
)


def prepare_adoption(connection: sa.Connection) -> None:
    """DDL commits by itself here: each step may find itself done."""
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
                alter = f"ALTER TABLE `{table}` MODIFY `{column.name}` {change}"
                connection.exec_driver_sql(alter)
    _keep_up_times_of_their_own(connection)


def execution_id_type(connection: sa.Connection) -> TypeEngine[Any]:
    rows = connection.execute(_COLUMNS, {"name": "SchedulerExecution"})
    kind = next(row.full_type for row in rows if row.name == "id")
    made = mysql.INTEGER if kind.startswith("int") else mysql.BIGINT
    return made(unsigned="unsigned" in kind)


def create_timestamp_triggers(connection: sa.Connection, editable: Sequence[str]) -> None:
    """The columns do so by themselves, at any UPDATE; ours keep them where it is no edit."""


def _change(column: sa.Row[Any]) -> str | None:
    """Say how a column must change: to keep fractions of seconds, and keys letter by letter.

    A flag may be no BIT: the driver reads it as a byte, and its schedule would be broken.
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
    for column in connection.execute(_COLUMNS, {"name": "Scheduler"}).all():
        name, default = column.name, _KEPT_UP.get(column.name)
        if default is None or (column.kind == "timestamp" and column.digits):
            continue
        connection.exec_driver_sql(
            f"UPDATE `Scheduler` SET `{name}` = UTC_TIMESTAMP() WHERE `{name}` IS NULL"  # noqa: S608
        )
        connection.exec_driver_sql(
            f"ALTER TABLE `Scheduler` MODIFY `{name}` TIMESTAMP(6) NOT NULL DEFAULT {default}"
        )
