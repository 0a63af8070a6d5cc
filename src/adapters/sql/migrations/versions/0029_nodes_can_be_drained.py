"""A node can be asked to take no more work, and says whether it takes any."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import MOMENT, add_columns

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Add the columns."""
    consuming = sa.Column("consuming", sa.Integer)
    add_columns("SchedulerNode", consuming, sa.Column("drain_asked_at", MOMENT))
