"""Replays of many failures, and the rows of the archive that each is about."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import (
    ID,
    LONG_TEXT,
    MOMENT,
    TABLE_OPTIONS,
    add_index,
    string,
)

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Make both tables, as far as a try that was cut off has not."""
    there = sa.inspect(op.get_bind())
    if not there.has_table("Replay"):
        op.create_table(
            "Replay",
            sa.Column("id", ID, primary_key=True),
            sa.Column("asked", LONG_TEXT, nullable=False),
            sa.Column("created_at", MOMENT, nullable=False),
            sa.Column("state", string(16), nullable=False),
            sa.Column("reason", LONG_TEXT),
            sa.Column("up_to", sa.BigInteger, nullable=False),
            sa.Column("collected_to", sa.BigInteger, nullable=False, server_default="0"),
            sa.Column("next_at", MOMENT, nullable=False),
            sa.Column("ended_at", MOMENT),
            *(
                sa.Column(name, sa.Integer, nullable=False, server_default="0")
                for name in ("waiting", "released", "failing", "succeeded", "failed", "refused")
            ),
            **TABLE_OPTIONS,
        )
    add_index("ix_replay_next", "Replay", ["state", "next_at"])
    if not there.has_table("ReplayItem"):
        op.create_table(
            "ReplayItem",
            sa.Column(
                "replay_id",
                ID,
                sa.ForeignKey("Replay.id", ondelete="CASCADE"),
                primary_key=True,
                autoincrement=False,
            ),
            sa.Column("archived_id", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("execution_id", sa.BigInteger, nullable=False),
            sa.Column("item_key", string(255), nullable=False),
            sa.Column("state", string(16), nullable=False),
            **{**TABLE_OPTIONS, "sqlite_autoincrement": False},
        )
    add_index("ix_replay_item", "ReplayItem", ["replay_id", "state", "item_key", "archived_id"])
