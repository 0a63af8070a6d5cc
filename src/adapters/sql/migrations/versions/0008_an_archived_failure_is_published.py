"""An archived failure keeps from when on its message is looked for, until a queue has it.

Those of older ledgers, and of older nodes that are still at work, count as published.
"""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import MOMENT, columns_of

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_TABLE = "FailedTask"


def upgrade() -> None:
    """Add the column and its index, unless a try that was cut off has left them."""
    connection = op.get_bind()
    if "check_at" not in columns_of(connection, _TABLE):
        op.add_column(_TABLE, sa.Column("check_at", MOMENT))
    there = {index["name"] for index in sa.inspect(connection).get_indexes(_TABLE)}
    if "ix_failed_check" not in there:
        op.create_index("ix_failed_check", _TABLE, ["check_at"])
