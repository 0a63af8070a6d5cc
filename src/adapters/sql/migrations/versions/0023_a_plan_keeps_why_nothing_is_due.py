"""A plan keeps why nothing of its schedule is due any more; since when, `resume_at` has."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns, string

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column."""
    add_columns("SchedulerPlan", sa.Column("idle", string(16)))
