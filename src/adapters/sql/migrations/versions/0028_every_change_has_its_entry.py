"""Each change that somebody asks for has an entry: who, what, on what, before, after, outcome."""

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

revision = "0028"
down_revision = "0027"

_TABLE = "AuditEntry"


def upgrade() -> None:
    """Make the table and its indexes, unless a try that was cut off has left them."""
    if not sa.inspect(op.get_bind()).has_table(_TABLE):
        op.create_table(
            _TABLE,
            sa.Column("id", ID, primary_key=True, autoincrement=True),
            sa.Column("at", MOMENT, nullable=False),
            sa.Column("actor", string(255), nullable=False),
            sa.Column("channel", string(16), nullable=False),
            sa.Column("action", string(64), nullable=False),
            sa.Column("target", string(255), nullable=False),
            sa.Column("value_before", LONG_TEXT),
            sa.Column("value_after", LONG_TEXT),
            sa.Column("outcome", string(16)),
            sa.Column("problem", LONG_TEXT),
            sa.Column("finished_at", MOMENT),
            **TABLE_OPTIONS,
        )
    add_index("ix_audit_at", _TABLE, ["at"])
    add_index("ix_audit_target", _TABLE, ["target", "id"])
    add_index("ix_audit_actor", _TABLE, ["actor", "id"])
