"""A schedule keeps what the request for it said: repeated, it is answered also after an edit."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns, string

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Add the column. No edit changes it."""
    add_columns("Scheduler", sa.Column("request", string(64)))
