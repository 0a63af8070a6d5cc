"""Executions may be held back: by a limit per concurrency key, or by others of their schedule.

The index is of held ones alone where a database can do that. Elsewhere each new execution is
entered once, without a name, and never moved: a state in it would move at each change.
"""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import (
    LONG_TEXT,
    MOMENT,
    TABLE_OPTIONS,
    add_columns,
    add_index,
    notice_edits,
    schema,
    string,
)

revision = "0014"
down_revision = "0013"

_TABLE = "ExecutionGate"


def upgrade() -> None:
    """Add the columns, the index and the table."""
    add_columns(
        "Scheduler",
        sa.Column("concurrency_key", string(255)),
        sa.Column("concurrency_limit", sa.Integer),
    )
    notice_edits()
    add_columns(
        "SchedulerExecution",
        sa.Column("concurrency_key", string(255)),
        sa.Column("overlap_policy", string(16)),
        sa.Column("held_by", string(255)),
    )
    of_held = {}
    if schema().has_partial_indexes:
        where = sa.text("held_by IS NOT NULL")
        of_held = {"sqlite_where": where, "postgresql_where": where}
    add_index("ix_execution_held", "SchedulerExecution", ["held_by", "due_at"], **of_held)
    if not sa.inspect(op.get_bind()).has_table(_TABLE):
        op.create_table(
            _TABLE,
            sa.Column("name", string(255), primary_key=True),
            sa.Column("places", LONG_TEXT),
            sa.Column("used_at", MOMENT, nullable=False),
            **TABLE_OPTIONS,
        )
    add_index("ix_gate_used_at", _TABLE, ["used_at"])
