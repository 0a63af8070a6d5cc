"""How often a message was sent again is counted: each copy doubles the wait for the next."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column."""
    resends = sa.Column("resends", sa.Integer, nullable=False, server_default="0")
    add_columns("SchedulerExecution", resends)
