"""A schedule may have an interval, and say what becomes of it at a change of the clock."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns, notice_edits, string

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns; NULL is the default of each."""
    add_columns(
        "Scheduler",
        sa.Column("every_ms", sa.BigInteger),
        sa.Column("gap_policy", string(16)),
        sa.Column("fold_policy", string(16)),
    )
    notice_edits()
