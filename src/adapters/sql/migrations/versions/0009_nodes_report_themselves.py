"""Each process that works on the ledger keeps a row of what it is, and when it was seen last."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, MOMENT, TABLE_OPTIONS, string

revision = "0009"
down_revision = "0008"

_TABLE = "SchedulerNode"


def upgrade() -> None:
    """Make the table, unless a try that was cut off has left it."""
    if sa.inspect(op.get_bind()).has_table(_TABLE):
        return
    op.create_table(
        _TABLE,
        sa.Column("name", string(255), primary_key=True),
        sa.Column("role", string(16), nullable=False),
        sa.Column("host", string(255), nullable=False),
        sa.Column("version", string(64), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.Column("queues", LONG_TEXT, nullable=False),
        sa.Column("concurrency", sa.Integer),
        sa.Column("running", sa.Integer),
        sa.Column("clock_offset_ms", sa.BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )
