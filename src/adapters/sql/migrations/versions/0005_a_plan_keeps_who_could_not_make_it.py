"""A plan that could not be made keeps by whom, and where the schedule goes on once somebody can."""

import sqlalchemy as sa
from alembic import op

from cronhare.adapters.sql.migrations.columns import MOMENT, columns_of, string

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TABLE = "SchedulerPlan"


def upgrade() -> None:
    """Add the columns, unless a try that was cut off has left them."""
    there = columns_of(op.get_bind(), _TABLE)
    for name, kind in (("judged_by", string(255)), ("resume_at", MOMENT)):
        if name not in there:
            op.add_column(_TABLE, sa.Column(name, kind))
