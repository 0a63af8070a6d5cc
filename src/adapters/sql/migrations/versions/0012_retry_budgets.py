"""Each queue keeps what it was granted of its retry budget."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, MOMENT, TABLE_OPTIONS, string

revision = "0012"
down_revision = "0011"

_TABLE = "RetryBudget"


def upgrade() -> None:
    """Make the table, unless a try that was cut off has left it."""
    if sa.inspect(op.get_bind()).has_table(_TABLE):
        return
    op.create_table(
        _TABLE,
        sa.Column("queue", string(255), primary_key=True),
        sa.Column("most", sa.Integer, nullable=False),
        sa.Column("window_ms", sa.BigInteger, nullable=False),
        sa.Column("granted", LONG_TEXT, nullable=False),
        sa.Column("spent_since", MOMENT),
        sa.Column("last_at", MOMENT),
        **TABLE_OPTIONS,
    )
