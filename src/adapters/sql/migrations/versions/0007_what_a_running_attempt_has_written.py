"""What an attempt writes is kept while it runs as well, and as of when."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import MOMENT, add_columns

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column."""
    add_columns("AttemptOutput", sa.Column("as_of", MOMENT))
