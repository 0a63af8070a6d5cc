"""The ledger, new or around tables `Scheduler` and `SchedulerExecution` that are there.

Tables that exist are adopted: they get the columns that they lack, and keep every row. Lower
numbers were those of ledgers from before the first release.

There is no way back: a downgrade would have to delete the ledger.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.types import TypeEngine

from cronhare.adapters.sql.dialect import Columns, dialect_of
from cronhare.adapters.sql.dialects import columns_in
from cronhare.adapters.sql.tables.tables import IX_LEASE, executions, metadata, schedulers
from cronhare.adapters.sql.tables.types import moment_of, read_moment

revision = "0040"
down_revision = None


def upgrade() -> None:
    """Make what is missing, and read what was there.

    Where each step commits by itself, it may find what one that was cut off has left.
    """
    now: datetime = context.config.attributes["now"]
    connection = op.get_bind()
    dialect = dialect_of(connection.engine)
    made = tables_in(columns_in(connection.dialect.name))
    adopted = made.tables[schedulers.name], made.tables[executions.name]

    dialect.prepare_adoption(connection)
    had_schedulers, had_executions = (make_or_complete(connection, each) for each in adopted)
    refer_to(adopted[1], dialect.execution_id_type(connection))
    for table in made.sorted_tables:
        if table not in adopted:
            make(connection, table)
    if had_schedulers:
        adopt_schedulers(connection, now)
    if had_executions:
        adopt_executions(connection, now)
    for table in made.sorted_tables:
        make_indexes(connection, table)
    dialect.create_timestamp_triggers(connection, EDITABLE)
    _insert_cleanup(connection, now)


def _insert_cleanup(connection: sa.Connection, now: datetime) -> None:
    """The daily cleanup is a schedule like any other, so that one replica does it."""
    values = {
        "name": "cronhare-cleanup",
        "schedule": "0 3 * * *",
        "timezone": "UTC",
        "status": 1,
        "params": "{}",
        "system_id": 1,
        "description": "deletes history that is older than its retention",
        "created_at": now,
        "updated_at": now,
    }
    is_there = sa.select(schedulers.c.id).where(schedulers.c.name == values["name"])
    if connection.execute(is_there).first() is None:
        connection.execute(sa.insert(schedulers), values)


# Tables as one database makes them: its types, its keys, and the checks that it needs

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

#: Indexes of those rows alone that have a value there. They are told so here: an index that has an
#: option of a dialect imports the dialect, in every process, whatever its database.
_PARTIAL: Final = {
    "ix_plan_paused": "paused_at",
    IX_LEASE: "lease_until",
    "ix_execution_held": "held_by",
}


def tables_in(columns: Columns) -> sa.MetaData:
    """Give all tables as they are made in one database."""
    made = sa.MetaData()
    for each in metadata.sorted_tables:
        _adjust(each.to_metadata(made), columns)
    return made


def refer_to(made: sa.Table, kind: TypeEngine[Any]) -> None:
    """Let all that refers to executions have the type of their ids."""
    for each in made.metadata.sorted_tables:
        for key in each.foreign_keys:
            if key.references(made):
                key.parent.type = kind


def make_or_complete(connection: sa.Connection, wanted: sa.Table) -> bool:
    """Make a table that another program may have, or add what it lacks; tells if it was there."""
    if not sa.inspect(connection).has_table(wanted.name):
        connection.execute(CreateTable(wanted))
        return False
    for column in _lacking(connection, wanted):
        name = connection.dialect.identifier_preparer.format_table(wanted)
        added = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {added}")
    return True


def make(connection: sa.Connection, wanted: sa.Table) -> None:
    """Make a table of our own. One with all its columns may be what was left of a try."""
    if not sa.inspect(connection).has_table(wanted.name) or _lacking(connection, wanted):
        connection.execute(CreateTable(wanted))  # somebody else's is not taken for ours


def make_indexes(connection: sa.Connection, wanted: sa.Table) -> None:
    """Make the indexes that a table lacks.

    Always in one order: between two that look alike SQLite chooses by it.
    """
    there = {index["name"] for index in sa.inspect(connection).get_indexes(wanted.name)}
    for index in sorted(wanted.indexes, key=lambda each: (not each.unique, str(each.name))):
        if index.name not in there:
            index.create(connection)


def _lacking(connection: sa.Connection, wanted: sa.Table) -> list[sa.Column[Any]]:
    """By a SELECT, not by reflection: that stumbles over types such as TINYINT(1) in SQLite."""
    nothing = sa.select(sa.text("*")).select_from(sa.table(wanted.name)).limit(0)
    there = set(connection.execute(nothing).keys())
    return [column for column in wanted.c if column.name not in there]


def _adjust(made: sa.Table, columns: Columns) -> None:
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
            column.server_default = sa.DefaultClause(sa.text(defaults[column.name]))
        if made.name not in _OF_PEOPLE and (check := columns.check(column)) is not None:
            made.append_constraint(sa.CheckConstraint(check))
    if not columns.references_schedules:
        for constraint in made.foreign_key_constraints:
            if constraint.referred_table.name == "Scheduler":
                made.constraints.discard(constraint)
    _adjust_indexes(made, columns)


def _adjust_indexes(made: sa.Table, columns: Columns) -> None:
    for index in list(made.indexes):
        if index.name in _PARTIAL:
            where = sa.text(f"{_PARTIAL[index.name]} IS NOT NULL")
            index.dialect_kwargs.update(sqlite_where=where, postgresql_where=where)
        if index.name == IX_LEASE and not columns.has_partial_indexes:
            made.indexes.discard(index)
        elif index.name in _PAGED and not columns.indexes_end_with_ids:
            made.indexes.discard(index)
            sa.Index(index.name, *index.columns, made.c[_PAGED[index.name]])


def _type_in(columns: Columns, kind: TypeEngine[Any]) -> TypeEngine[Any]:
    match kind:
        case sa.BigInteger():
            return columns.id
        case sa.Text():
            return columns.text
        case sa.String():
            return columns.string(kind.length or 0)
    return kind


# Tables that were there

#: So many rows are read and written at once.
_PAGE = 1_000

_KEY = re.compile(r"(?:cron|once)-(\d{4})-(\d{1,2})-(\d{1,2})-(\d{1,2})-(\d{1,2})")

_ADOPT = (
    sa.update(executions)
    .where(executions.c.id == sa.bindparam("row_id"))
    .values(
        state="succeeded",
        execution_key=sa.bindparam("key"),
        container_id=sa.bindparam("node"),
        executed_at=moment_of("at"),
        finished_at=moment_of("at"),
        due_at=moment_of("due"),
    )
)
_RENAME = (
    sa.update(executions)
    .where(executions.c.id == sa.bindparam("row_id"))
    .values(execution_key=sa.bindparam("key"))
)


def adopt_schedulers(connection: sa.Connection, now: datetime) -> None:
    """Let all schedules count as edited now, so that none of them runs an older instant."""
    connection.execute(sa.update(schedulers).values(created_at=now, updated_at=now))


def adopt_executions(connection: sa.Connection, now: datetime) -> None:
    """Give old executions their place in the ledger.

    They become `succeeded`: their messages were published, and what came of them was never
    written down. To call them anything unfinished would run them a second time.
    """
    for page in _pages(connection):
        connection.execute(_ADOPT, [_adopted(row, now) for row in page])
    _tell_twins_apart(connection)
    for kind in ("report", "worker", "reminder"):
        _name_task(connection, kind)


def _pages(connection: sa.Connection) -> Iterator[list[sa.Row[Any]]]:
    statement = (
        sa.select(
            *executions.c["id", "scheduler_id", "execution_key", "executed_at", "container_id"]
        )
        .where(executions.c.id > sa.bindparam("last"))
        .order_by(executions.c.id)
        .limit(_PAGE)
    )
    last = 0
    while page := list(connection.execute(statement, {"last": last})):
        yield page
        last = page[-1].id


def _adopted(row: sa.Row[Any], now: datetime) -> dict[str, Any]:
    named = _minute_in(row.execution_key)
    executed_at = read_moment(row.executed_at) or named or now
    return {
        "row_id": row.id,
        "key": _harmless(row, named, now),
        "node": row.container_id or "",
        "at": executed_at,
        # The key's own minute may have been read off any wall clock: it is the second choice.
        "due": executed_at.replace(second=0, microsecond=0),
    }


def _minute_in(key: object) -> datetime | None:
    match = _KEY.fullmatch(str(key))
    try:
        return datetime(*map(int, match.groups()), tzinfo=UTC) if match else None  # type: ignore[misc, arg-type]
    except ValueError:
        return None


def _harmless(row: sa.Row[Any], named: datetime | None, now: datetime) -> str:
    """Keep the key, unless it would swallow a run that is still to come.

    A clock ahead of UTC made keys that our own will reach in some hours.
    """
    if row.execution_key is None or (named is not None and named > now):
        return f"adopted-{row.id}-{row.execution_key}"
    return str(row.execution_key)


def _tell_twins_apart(connection: sa.Connection) -> None:
    """Where nothing kept keys unique until now, the first of each keeps its own."""
    key = (executions.c.scheduler_id, executions.c.execution_key)
    first = sa.func.min(executions.c.id).label("first")
    twice = sa.select(*key, first).group_by(*key).having(sa.func.count() > 1)
    for scheduler_id, text, first_id in connection.execute(twice).all():
        others = sa.select(executions.c.id).where(
            executions.c.scheduler_id == scheduler_id,
            executions.c.execution_key == text,
            executions.c.id > first_id,
        )
        renamed = [{"row_id": id_, "key": f"{text}#{id_}"} for id_ in connection.scalars(others)]
        connection.execute(_RENAME, renamed)


def _name_task(connection: sa.Connection, kind: str) -> None:
    column = schedulers.c[f"{kind}_id"]
    of_schedule = schedulers.c.id == executions.c.scheduler_id
    task = sa.select(column).where(of_schedule).scalar_subquery()
    having_one = sa.exists().where(of_schedule, column.is_not(None))
    connection.execute(sa.update(executions).where(having_one).values(task_type=kind, task_id=task))
