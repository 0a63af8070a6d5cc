"""A row of the archive keeps under which policy it was run, and the crashes it is quarantined for.

Those of older ledgers, and of older nodes that are still at work, have neither.
"""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, MOMENT, add_columns

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the columns."""
    add_columns(
        "FailedTask",
        sa.Column("crash_count", sa.Integer),
        sa.Column("first_crash_at", MOMENT),
        sa.Column("options", LONG_TEXT),
    )
