"""What an attempt writes is kept while it runs as well, and as of when."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import MOMENT, columns_of

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TABLE = "AttemptOutput"


def upgrade() -> None:
    """Add the column, unless a try that was cut off has left it."""
    if "as_of" not in columns_of(op.get_bind(), _TABLE):
        op.add_column(_TABLE, sa.Column("as_of", MOMENT))
