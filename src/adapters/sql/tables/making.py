"""The tables as one database makes them: its types, its keys, and the checks that it needs."""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    DefaultClause,
    Index,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.types import TypeEngine

from ..dialect import Columns
from .tables import IX_LEASE, metadata

#: People write these, so no check keeps anything out of them.
_OF_PEOPLE: Final = {"Scheduler", "Calendar", "CalendarWindow"}

_KEPT_UP: Final = {"created_at", "updated_at"}

#: An UPDATE of one of these alone is no edit of a schedule: nothing is planned by them.
_NO_EDIT: Final = {"id", "task_name", "retention", "request", *_KEPT_UP}

#: An UPDATE of one of these is an edit.
EDITABLE: Final = [
    each.name for each in metadata.tables["Scheduler"].c if each.name not in _NO_EDIT
]

#: These are paged by a moment and an id. Where an index does not end with the row's id by itself,
#: all of one moment would be sorted anew for each page.
_PAGED: Final = {"ix_scheduler_updated_at": "id", "ix_plan_next_due_at": "scheduler_id"}


def tables_in(columns: Columns) -> MetaData:
    """Give all tables as they are made in one database."""
    made = MetaData()
    for each in metadata.sorted_tables:
        _adjust(each.to_metadata(made), columns)
    return made


def refer_to(executions: Table, kind: TypeEngine[Any]) -> None:
    """Let all that refers to executions have the type of their ids."""
    for each in executions.metadata.sorted_tables:
        for key in each.foreign_keys:
            if key.references(executions):
                key.parent.type = kind


def make_or_complete(connection: Connection, wanted: Table) -> bool:
    """Make a table that another program may have, or add what it lacks; tells if it was there."""
    if not inspect(connection).has_table(wanted.name):
        connection.execute(CreateTable(wanted))
        return False
    for column in _lacking(connection, wanted):
        name = connection.dialect.identifier_preparer.format_table(wanted)
        added = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {added}")
    return True


def make(connection: Connection, wanted: Table) -> None:
    """Make a table of our own. One with all its columns may be what was left of a try."""
    if not inspect(connection).has_table(wanted.name) or _lacking(connection, wanted):
        connection.execute(CreateTable(wanted))  # somebody else's is not taken for ours


def make_indexes(connection: Connection, wanted: Table) -> None:
    """Make the indexes that a table lacks.

    Always in one order: between two that look alike SQLite chooses by it.
    """
    there = {index["name"] for index in inspect(connection).get_indexes(wanted.name)}
    for index in sorted(wanted.indexes, key=lambda each: (not each.unique, str(each.name))):
        if index.name not in there:
            index.create(connection)


def _lacking(connection: Connection, wanted: Table) -> list[Column[Any]]:
    """By a SELECT, not by reflection: that stumbles over types such as TINYINT(1) in SQLite."""
    nothing = select(text("*")).select_from(table(wanted.name)).limit(0)
    there = set(connection.execute(nothing).keys())
    return [column for column in wanted.c if column.name not in there]


def _adjust(made: Table, columns: Columns) -> None:
    made.dialect_kwargs.update(
        sqlite_autoincrement=len(made.primary_key) == 1,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    defaults = {"created_at": columns.created_at, "updated_at": columns.updated_at}
    for column in made.c:
        column.type = _type_in(columns, column.type)
        if made.name == "Scheduler" and column.name in defaults:
            column.type = columns.kept_up
            column.server_default = DefaultClause(text(defaults[column.name]))
        if made.name not in _OF_PEOPLE and (check := columns.check(column)) is not None:
            made.append_constraint(CheckConstraint(check))
    if not columns.references_schedules:
        for constraint in made.foreign_key_constraints:
            if constraint.referred_table.name == "Scheduler":
                made.constraints.discard(constraint)
    for index in list(made.indexes):
        if index.name == IX_LEASE and not columns.has_partial_indexes:
            made.indexes.discard(index)
        elif index.name in _PAGED and not columns.indexes_end_with_ids:
            made.indexes.discard(index)
            Index(index.name, *index.columns, made.c[_PAGED[index.name]])


def _type_in(columns: Columns, kind: TypeEngine[Any]) -> TypeEngine[Any]:
    match kind:
        case BigInteger():
            return columns.id
        case Text():
            return columns.text
        case String():
            return columns.string(kind.length or 0)
    return kind
