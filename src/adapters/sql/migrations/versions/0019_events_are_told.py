"""Events wait in an outbox for those who want to know of them.

Failures of older ledgers have no `event_at`: nobody is told of them now.
"""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import (
    ID,
    LONG_TEXT,
    MOMENT,
    TABLE_OPTIONS,
    add_columns,
    add_index,
    string,
)

revision = "0019"
down_revision = "0018"

_TABLE = "EventDelivery"


def upgrade() -> None:
    """Make the table, unless a try that was cut off has left it; add the column and its index."""
    if not sa.inspect(op.get_bind()).has_table(_TABLE):
        op.create_table(
            _TABLE,
            sa.Column("id", ID, primary_key=True, autoincrement=True),
            sa.Column("event_key", string(255), nullable=False),
            sa.Column("event", string(32), nullable=False),
            sa.Column("target", string(255), nullable=False),
            sa.Column("source", string(255), nullable=False),
            sa.Column("scheduler_id", sa.BigInteger, nullable=False),
            sa.Column("schedule_name", string(255), nullable=False),
            sa.Column("execution_id", sa.BigInteger),
            sa.Column("occurred_at", MOMENT, nullable=False),
            sa.Column("payload", LONG_TEXT, nullable=False),
            sa.Column("state", string(16), nullable=False),
            sa.Column("tries", sa.Integer, nullable=False),
            sa.Column("next_try_at", MOMENT),
            sa.Column("owner", string(255)),
            sa.Column("finished_at", MOMENT),
            sa.Column("last_error", LONG_TEXT),
            **TABLE_OPTIONS,
        )
    add_index("ux_delivery", _TABLE, ["event_key", "target"], unique=True)
    add_index("ix_delivery_due", _TABLE, ["state", "target", "next_try_at"])
    add_columns("FailedTask", sa.Column("event_at", MOMENT))
    add_index("ix_failed_event", "FailedTask", ["event_at"])
