"""Calendars by which schedules run, or do not."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import (
    ID,
    LONG_TEXT,
    TABLE_OPTIONS,
    add_index,
    string,
)

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make the tables, unless a try that was cut off has left them."""
    there = sa.inspect(op.get_bind())
    if not there.has_table("Calendar"):
        op.create_table(
            "Calendar",
            sa.Column("name", string(63), primary_key=True),
            sa.Column("timezone", string(64), nullable=False),
            sa.Column("source", LONG_TEXT),
            **TABLE_OPTIONS,
        )
    if not there.has_table("CalendarWindow"):
        op.create_table(
            "CalendarWindow",
            sa.Column("id", ID, primary_key=True),
            sa.Column("calendar", string(63), nullable=False),
            sa.Column("during", string(64), nullable=False),
            sa.Column("label", string(200)),
            **TABLE_OPTIONS,
        )
    add_index("ix_window_calendar", "CalendarWindow", ["calendar"])
