"""A worker says which version of its jobs file it has read."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Add the columns: those of older versions say nothing."""
    columns = (sa.Column("source", sa.String(255)), sa.Column("digest", sa.String(12)))
    add_columns("SchedulerNode", *columns)
