"""What a task reports is kept beside its output, and how many lines it has written."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import LONG_TEXT, add_columns

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the columns."""
    add_columns(
        "AttemptOutput",
        sa.Column("stdout_lines", sa.BigInteger),
        sa.Column("stderr_lines", sa.BigInteger),
        sa.Column("progress", sa.Double),
        sa.Column("progress_text", LONG_TEXT),
        sa.Column("result", LONG_TEXT),
        sa.Column("result_problem", LONG_TEXT),
    )
