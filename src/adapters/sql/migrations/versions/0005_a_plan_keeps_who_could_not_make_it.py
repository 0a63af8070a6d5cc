"""A plan that could not be made keeps by whom, and where the schedule goes on once somebody can."""

import sqlalchemy as sa

from cronhare.adapters.sql.migrations.columns import MOMENT, add_columns, string

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns."""
    add_columns(
        "SchedulerPlan", sa.Column("judged_by", string(255)), sa.Column("resume_at", MOMENT)
    )
