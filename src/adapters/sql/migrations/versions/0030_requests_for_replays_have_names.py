"""A replay keeps what names the request for it, so that a repetition begins no second one."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import add_columns, add_index, string

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the column, and the index that is the judge."""
    add_columns("Replay", sa.Column("request", string(36)))
    add_index("ux_replay_request", "Replay", ["request"], unique=True)
