"""Who may ask over HTTP: tokens by their digests, and the sessions of the page."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import MOMENT, TABLE_OPTIONS, add_index, string

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Make the tables, unless a try that was cut off has left them."""
    there = sa.inspect(op.get_bind())
    if not there.has_table("AccessToken"):
        op.create_table(
            "AccessToken",
            sa.Column("name", string(64), primary_key=True),
            sa.Column("scope", string(16), nullable=False),
            sa.Column("digest", string(64), nullable=False),
            sa.Column("created_at", MOMENT, nullable=False),
            sa.Column("made_by", string(255), nullable=False),
            sa.Column("expires_at", MOMENT),
            sa.Column("revoked_at", MOMENT),
            sa.Column("last_used_at", MOMENT),
            **TABLE_OPTIONS,
        )
    if not there.has_table("PageSession"):
        op.create_table(
            "PageSession",
            sa.Column("digest", string(64), primary_key=True),
            sa.Column("token", string(64), nullable=False),
            sa.Column("token_digest", string(64), nullable=False),
            sa.Column("created_at", MOMENT, nullable=False),
            sa.Column("expires_at", MOMENT, nullable=False),
            **TABLE_OPTIONS,
        )
    add_index("ux_token_digest", "AccessToken", ["digest"], unique=True)
    add_index("ix_session_token", "PageSession", ["token_digest"])
    add_index("ix_session_end", "PageSession", ["expires_at"])
