"""Workers note which messages they hold that came again: some end whoever reads them."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import MOMENT, TABLE_OPTIONS, add_index, string

revision = "0026"
down_revision = "0025"

_TABLE = "RedeliveryHold"


def upgrade() -> None:
    """Make the table, unless a try that was cut off has left it."""
    if not sa.inspect(op.get_bind()).has_table(_TABLE):
        op.create_table(
            _TABLE,
            sa.Column("message", string(64), primary_key=True),
            sa.Column("node", string(255), primary_key=True),
            sa.Column("host", string(255), nullable=False),
            sa.Column("boot", string(64), nullable=False),
            sa.Column("at", MOMENT, nullable=False),
            **TABLE_OPTIONS,
        )
    add_index("ix_hold_at", _TABLE, ["at"])
