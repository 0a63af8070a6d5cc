"""An attempt says how many processes it left running, which were killed at its end."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Add the column: older attempts say nothing."""
    add_columns("ExecutionAttempt", sa.Column("left_running", sa.Integer))
