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
)

_ADOPTED = ("Scheduler", "SchedulerExecution")

_KEPT_UP = frozenset({"created_at", "updated_at"})

# TIMESTAMP, not DATETIME as everywhere else: it is UTC whatever the time zone of the session that
# edits; an edit hours ahead would keep a schedule from running until then. Servers that end it in
# 2038 have a way to go until this table must change.
_CREATED = sa.text("CURRENT_TIMESTAMP(6)")
_UPDATED = sa.text("CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)")

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


class MysqlSchema:
    """Satisfies `Schema`. DDL commits by itself here."""

    references_schedules = False
    has_partial_indexes = False
    indexes_end_with_ids = True

    def prepare_adoption(self, connection: sa.Connection) -> None:
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
        self._keep_up_times_of_their_own(connection)

    def execution_id_type(self, connection: sa.Connection) -> TypeEngine[Any]:
        rows = connection.execute(_COLUMNS, {"name": "SchedulerExecution"})
        full_type = next(row.full_type for row in rows if row.name == "id")
        unsigned = "unsigned" in full_type
        if full_type.startswith("int"):
            return mysql.INTEGER(unsigned=unsigned)
        return mysql.BIGINT(unsigned=unsigned)

    def timestamp_columns(self) -> list[sa.Column[Any]]:
        moment = mysql.TIMESTAMP(fsp=6)
        return [
            sa.Column("created_at", moment, nullable=False, server_default=_CREATED),
            sa.Column("updated_at", moment, nullable=False, server_default=_UPDATED),
        ]

    def type_check(self, column: sa.Column[Any]) -> None:
        """The columns have types."""

    def create_timestamp_triggers(self, connection: sa.Connection, editable: Sequence[str]) -> None:
        """The columns do so by themselves, at any UPDATE; ours keep them where it is no edit."""

    def _keep_up_times_of_their_own(self, connection: sa.Connection) -> None:
        """Let columns that were there already, under our names, be kept up as ours are."""
        there = {
            column.name: column for column in connection.execute(_COLUMNS, {"name": "Scheduler"})
        }
        for column in self.timestamp_columns():
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
