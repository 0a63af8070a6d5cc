"""Each task keeps what is known of its circuit breaker."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, MOMENT, TABLE_OPTIONS, string

revision = "0016"
down_revision = "0015"

_TABLE = "CircuitBreaker"


def upgrade() -> None:
    """Make the table, unless a try that was cut off has left it."""
    if sa.inspect(op.get_bind()).has_table(_TABLE):
        return
    op.create_table(
        _TABLE,
        sa.Column("task", string(64), primary_key=True),
        sa.Column("task_name", string(255)),
        sa.Column("window_ms", sa.BigInteger, nullable=False),
        sa.Column("failures", LONG_TEXT, nullable=False),
        sa.Column("judged_at", MOMENT),
        sa.Column("next_failures", sa.Integer, nullable=False),
        sa.Column("opened_at", MOMENT),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("succeeded", sa.Integer, nullable=False),
        sa.Column("probe_at", MOMENT),
        sa.Column("probe", sa.BigInteger),
        sa.Column("last_at", MOMENT, nullable=False),
        **TABLE_OPTIONS,
    )
