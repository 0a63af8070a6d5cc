"""A schedule names its task within its source; each execution and each failure keeps both.

The names of tasks stand in jobs files alone: the next `apply` of each file fills them in. Until
then a row is known by its source and its task's number, and so is what is under way.
"""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import add_columns, schema, string

revision = "0004"
down_revision = "0003"

#: An UPDATE of one of these is an edit: the schedule is planned by them. One of `task_name` alone
#: changes nothing that is planned.
_EDITABLE = (
    "schedule",
    "date_time",
    "params",
    "status",
    "stay_alive",
    "description",
    "report_id",
    "worker_id",
    "reminder_id",
    "user_id",
    "group_id",
    "language_id",
    "name",
    "event_id",
    "system_id",
    "timezone",
    "retry",
    "misfire_policy",
    "misfire_window_ms",
    "misfire_cap",
    "overlap_policy",
    "timeout_ms",
    "jitter_ms",
    "starts_at",
    "ends_at",
    "queue",
    "source",
)

_ADDED = {
    "Scheduler": ("task_name",),
    "SchedulerExecution": ("source", "task_name"),
    "FailedTask": ("source", "task_name"),
}

#: Names that are longer are no file's.
_LENGTH = 255

_STILL_TO_RUN = ("claimed", "published", "running", "retrying", "failed", "quarantined")


def upgrade() -> None:
    """Add the columns, and fill in the sources."""
    for table, names in _ADDED.items():
        add_columns(table, *(sa.Column(name, string(_LENGTH)) for name in names))
    schema().limit_update_trigger(op.get_bind(), _EDITABLE)
    _fill_in_sources()


def _fill_in_sources() -> None:
    """Fill in the source of executions that can still run; no other worker runs them now."""
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
