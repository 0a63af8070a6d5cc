"""An execution may have a time by which it begins, or never does."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import MOMENT, add_columns

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the column; NULL is any time."""
    add_columns("SchedulerExecution", sa.Column("expires_at", MOMENT))
