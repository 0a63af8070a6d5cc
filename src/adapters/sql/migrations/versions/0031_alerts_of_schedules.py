"""Alerts are about schedules, queues and nodes as well, and are remembered when they are over."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import ID, MOMENT, add_columns, string

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add the columns: what was raised before is of the whole ledger."""
    add_columns(
        "Alert",
        sa.Column("subject", string(255), nullable=True),
        sa.Column("source", string(255), nullable=True),
        sa.Column("scheduler_id", ID, nullable=True),
        sa.Column("cleared_at", MOMENT, nullable=True),
    )
