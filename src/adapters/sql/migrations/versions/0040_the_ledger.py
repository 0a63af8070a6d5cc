"""The ledger, new or around tables `Scheduler` and `SchedulerExecution` that are there.

Tables that exist are adopted: they get the columns that they lack, and keep every row. Lower
numbers were those of ledgers from before the first release.

There is no way back: a downgrade would have to delete the ledger.
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import context, op

from cronhare.adapters.sql.dialect import dialect_of
from cronhare.adapters.sql.dialects import columns_in
from cronhare.adapters.sql.migrations.upgrade import adopt_executions, adopt_schedulers
from cronhare.adapters.sql.tables import making

revision = "0040"
down_revision = None


def upgrade() -> None:
    """Make what is missing, and read what was there.

    Where each step commits by itself, it may find what one that was cut off has left.
    """
    now: datetime = context.config.attributes["now"]
    connection = op.get_bind()
    dialect = dialect_of(connection.engine)
    made = making.tables_in(columns_in(connection.dialect.name))
    schedulers, executions = made.tables["Scheduler"], made.tables["SchedulerExecution"]

    dialect.prepare_adoption(connection)
    had_schedulers = making.make_or_complete(connection, schedulers)
    had_executions = making.make_or_complete(connection, executions)
    making.refer_to(executions, dialect.execution_id_type(connection))
    ours = [table for table in made.sorted_tables if table not in {schedulers, executions}]
    for table in ours:
        making.make(connection, table)
    if had_schedulers:
        adopt_schedulers(connection, now)
    if had_executions:
        adopt_executions(connection, now)
    for table in made.sorted_tables:
        making.make_indexes(connection, table)
    dialect.create_timestamp_triggers(connection, making.EDITABLE)
    _insert_cleanup(connection, now)


def _insert_cleanup(connection: sa.Connection, now: datetime) -> None:
    """The daily cleanup is a schedule like any other, so that one replica does it."""
    text = f"{now.astimezone(UTC).replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}"
    row = sa.table(
        "Scheduler",
        *map(sa.column, ("name", "schedule", "timezone", "status", "params", "system_id")),
        *map(sa.column, ("description", "created_at", "updated_at")),
    )
    is_there = sa.select(row.c.name).where(row.c.name == "cronhare-cleanup")
    if connection.execute(is_there).first() is not None:
        return
    connection.execute(
        sa.insert(row),
        {
            "name": "cronhare-cleanup",
            "schedule": "0 3 * * *",
            "timezone": "UTC",
            "status": 1,
            "params": "{}",
            "system_id": 1,
            "description": "deletes history that is older than its retention",
            "created_at": text,
            "updated_at": text,
        },
    )
