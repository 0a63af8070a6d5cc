"""How often a message was sent again is counted: each copy doubles the wait for the next."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import columns_of

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TABLE = "SchedulerExecution"


def upgrade() -> None:
    """Add the column, unless a try that was cut off has left it."""
    if "resends" not in columns_of(op.get_bind(), _TABLE):
        op.add_column(_TABLE, sa.Column("resends", sa.Integer, nullable=False, server_default="0"))
