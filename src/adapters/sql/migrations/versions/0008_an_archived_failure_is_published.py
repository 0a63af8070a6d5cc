"""An archived failure keeps from when on its message is looked for, until a queue has it.

Those of older ledgers, and of older nodes that are still at work, count as published.
"""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import MOMENT, add_columns, add_index

revision = "0008"
down_revision = "0007"

_TABLE = "FailedTask"


def upgrade() -> None:
    """Add the column and its index."""
    add_columns(_TABLE, sa.Column("check_at", MOMENT))
    add_index("ix_failed_check", _TABLE, ["check_at"])
