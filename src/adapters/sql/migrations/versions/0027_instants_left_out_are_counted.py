"""Backfills count the instants that calendars and blackout windows leave out."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add the column."""
    left_out = sa.Column("left_out", sa.Integer, nullable=False, server_default="0")
    add_columns("Replay", left_out)
