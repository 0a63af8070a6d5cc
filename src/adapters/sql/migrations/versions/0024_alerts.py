"""Alerts that hold, and when they were judged last."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, MOMENT, TABLE_OPTIONS, string

revision = "0024"
down_revision = "0023"

_TABLE = "Alert"


def upgrade() -> None:
    """Make the table, unless a try that was cut off has left it."""
    if sa.inspect(op.get_bind()).has_table(_TABLE):
        return
    op.create_table(
        _TABLE,
        sa.Column("rule", string(32), primary_key=True),
        sa.Column("raised_at", MOMENT, nullable=False),
        sa.Column("held_at", MOMENT, nullable=False),
        sa.Column("data", LONG_TEXT, nullable=False),
        **TABLE_OPTIONS,
    )
