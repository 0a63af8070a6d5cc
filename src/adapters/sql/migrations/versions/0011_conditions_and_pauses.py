"""A schedule has conditions under which it runs, and may be paused."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import (
    ID,
    LONG_TEXT,
    MOMENT,
    TABLE_OPTIONS,
    add_columns,
    notice_edits,
    schema,
    string,
)

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column and the tables, unless a try that was cut off has left them."""
    add_columns("Scheduler", sa.Column("conditions", LONG_TEXT))
    notice_edits()
    _make(
        "SchedulePause",
        _of_schedule(),
        sa.Column("paused_at", MOMENT, nullable=False),
        sa.Column("paused_until", MOMENT),
        sa.Column("paused_by", string(255)),
        sa.Column("reason", LONG_TEXT),
    )
    _make("ScheduleTally", _of_schedule(), sa.Column("claimed", sa.BigInteger, nullable=False))


def _of_schedule() -> sa.Column[Any]:
    """Key a table by its schedule; see `Schema.references_schedules`."""
    refers = [sa.ForeignKey("Scheduler.id", ondelete="CASCADE")]
    keys = refers if schema().references_schedules else []
    return sa.Column("scheduler_id", ID, *keys, primary_key=True, autoincrement=False)


def _make(name: str, *columns: sa.Column[Any]) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, **TABLE_OPTIONS)
