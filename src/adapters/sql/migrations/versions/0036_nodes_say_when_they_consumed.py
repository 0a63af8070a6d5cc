"""A worker says when it was connected to its queues last."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import MOMENT, add_columns

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Add the column: those of older versions say nothing."""
    add_columns("SchedulerNode", sa.Column("consumed_at", MOMENT))
