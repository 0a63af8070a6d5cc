"""A schedule's row says of which class its task is, and how many ended runs of that are kept."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, add_columns

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column; that it changes is no edit, as nothing is planned by it."""
    add_columns("Scheduler", sa.Column("retention", LONG_TEXT))
