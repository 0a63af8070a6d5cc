"""What migrations are written with: column types, table options, and steps that can be repeated.

Where each step commits by itself, a migration that was cut off is run again: see
`Schema.has_transactional_ddl`.
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeDecorator, TypeEngine

from cronhare.adapters.sql.dialect import Schema, dialect_of
from cronhare.adapters.sql.dialects import columns_in
from cronhare.adapters.sql.schema.tables import schedulers
from cronhare.adapters.sql.schema.types import Flag, UtcDateTime


class Id(TypeDecorator[int]):
    """A number that the database gives."""

    impl = sa.BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Choose the column's type."""
        return dialect.type_descriptor(columns_in(dialect.name).id)


class LongText(TypeDecorator[str]):
    """A text of any length."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Choose the column's type."""
        return dialect.type_descriptor(columns_in(dialect.name).text)


class ShortText(TypeDecorator[str]):
    """A text of so many letters at most."""

    impl = sa.String
    cache_ok = True

    def __init__(self, length: int) -> None:
        """*length* counts letters."""
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Choose the column's type."""
        return dialect.type_descriptor(columns_in(dialect.name).string(self.length))


ID: Final = Id()
MOMENT: Final = UtcDateTime()
LONG_TEXT: Final = LongText()
FLAG: Final = Flag()

#: What a new table is made of; a database takes the options that are its own.
TABLE_OPTIONS: dict[str, Any] = {
    "sqlite_autoincrement": True,
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


#: An UPDATE of one of these alone is no edit of a schedule: nothing is planned by them.
_NO_EDIT: Final = {"id", "task_name", "retention", "request", "created_at", "updated_at"}


def schema() -> Schema:
    """Give how tables are made in the database that is migrated."""
    return dialect_of(op.get_bind().engine).schema


def string(length: int) -> ShortText:
    """Give a text of at most *length* letters."""
    return ShortText(length)


def add_columns(table: str, *columns: sa.Column[Any]) -> None:
    """Add those that a table lacks."""
    there = columns_of(table)
    for column in columns:
        if column.name not in there:
            op.add_column(table, column)


def notice_edits() -> None:
    """Let an UPDATE of each column count as an edit that is ours, and there by now."""
    ours = {column.name for column in schedulers.columns} & columns_of("Scheduler")
    schema().limit_update_trigger(op.get_bind(), sorted(ours - _NO_EDIT))


def add_index(name: str, table: str, columns: list[str], **options: Any) -> None:  # noqa: ANN401 - Alembic's own
    """Make an index, unless it is there."""
    if name not in indexes_of(table):
        op.create_index(name, table, columns, **options)


def columns_of(table: str) -> set[str]:
    """By a SELECT, not by reflection: that stumbles over types such as TINYINT(1) in SQLite."""
    nothing = sa.select(sa.text("*")).select_from(sa.table(table)).limit(0)
    return set(op.get_bind().execute(nothing).keys())


def indexes_of(table: str) -> set[str | None]:
    """Give the names of a table's indexes."""
    return {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
