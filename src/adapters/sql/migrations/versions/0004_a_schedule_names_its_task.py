"""A schedule names its task within its source; each execution and each failure keeps both.

The names of tasks stand in jobs files alone: the next `apply` of each file fills them in. Until
then a row is known by its source and its task's number, and so is what is under way.
"""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.dialect import schema_on
from cronhare.adapters.sql.migrations.columns import columns_of, string
from cronhare.adapters.sql.migrations.upkeep import EDITABLE

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ADDED = {
    "Scheduler": ("task_name",),
    "SchedulerExecution": ("source", "task_name"),
    "FailedTask": ("source", "task_name"),
}

#: Names that are longer are no file's.
_LENGTH = 255

_STILL_TO_RUN = ("claimed", "published", "running", "retrying", "failed", "quarantined")


def upgrade() -> None:
    """Add the columns, unless a try that was cut off has left them, and fill in the sources."""
    for table, names in _ADDED.items():
        there = columns_of(op.get_bind(), table)
        for name in names:
            if name not in there:
                op.add_column(table, sa.Column(name, string(_LENGTH)))
    schema_on(op.get_bind()).limit_update_trigger(op.get_bind(), EDITABLE)
    _fill_in_sources()


def _fill_in_sources() -> None:
    """Tell of what can still run whose it is: from now on nobody else will run it."""
    schedulers = sa.table("Scheduler", sa.column("id"), sa.column("source"))
    executions = sa.table(
        "SchedulerExecution", *map(sa.column, ("scheduler_id", "state", "source"))
    )
    of_schedule = (
        sa.select(sa.func.substr(schedulers.c.source, 1, _LENGTH))
        .where(schedulers.c.id == executions.c.scheduler_id)
        .scalar_subquery()
    )
    op.execute(
        sa.update(executions)
        .where(executions.c.state.in_(_STILL_TO_RUN), executions.c.source.is_(None))
        .values(source=of_schedule)
    )
