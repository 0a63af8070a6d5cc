"""A schedule may name a topic instead of a task; what nobody listened to is counted."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import (
    MOMENT,
    TABLE_OPTIONS,
    add_columns,
    notice_edits,
    string,
)

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add the columns and the table, unless a try that was cut off has left them."""
    for table in ("Scheduler", "SchedulerExecution"):
        add_columns(table, sa.Column("topic", string(255)), sa.Column("no_listener", string(16)))
    add_columns("FailedTask", sa.Column("topic", string(255)))
    notice_edits()
    if not sa.inspect(op.get_bind()).has_table("TopicTally"):
        op.create_table(
            "TopicTally",
            sa.Column("topic", string(255), primary_key=True),
            sa.Column("no_listener", sa.BigInteger, nullable=False),
            sa.Column("last_at", MOMENT, nullable=False),
            **TABLE_OPTIONS,
        )
