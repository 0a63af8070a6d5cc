"""A schedule may run a task of a type of one's own: its name, and the task's number."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns, notice_edits, string

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the columns; the four types of before have columns of their own."""
    add_columns("Scheduler", sa.Column("task_type", string(32)), sa.Column("task_id", sa.Integer))
    notice_edits()
