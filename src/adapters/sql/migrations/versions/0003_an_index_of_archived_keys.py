"""A failure that is reported again is found by its key, long after its execution was cleaned up.

Nothing else knows it then, and the archive is kept for ever: to read through all of it would take
longer each year.
"""

from cronhare.adapters.sql.migrations.columns import add_index

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the index."""
    add_index("ix_failed_key", "FailedTask", ["scheduler_id", "execution_key"])
