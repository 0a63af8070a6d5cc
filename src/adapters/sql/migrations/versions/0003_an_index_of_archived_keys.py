"""A failure that is reported again is found by its key, long after its execution was cleaned up.

Nothing else knows it then, and the archive is kept for ever: to read through all of it would take
longer each year.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TABLE = "FailedTask"


def upgrade() -> None:
    """Make the index, unless a try that was cut off has left it."""
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(_TABLE)}
    if "ix_failed_key" not in there:
        op.create_index("ix_failed_key", _TABLE, ["scheduler_id", "execution_key"])
