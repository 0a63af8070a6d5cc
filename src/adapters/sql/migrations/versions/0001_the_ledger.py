"""The ledger, new or around the seeds' tables `Scheduler` and `SchedulerExecution`.

Tables that exist are adopted: they get the columns that they lack, and keep every row.

There is no way back: a downgrade would have to delete the ledger.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from cronhare.adapters.sql.migrations.adoption import adopt_executions, adopt_schedulers
from cronhare.adapters.sql.migrations.upkeep import keep_up_times

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
# SQLite keeps moments as text of one length, and of a form that our triggers can write.
MOMENT = sa.DateTime().with_variant(sa.String(26), "sqlite")


def _schedulers() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", ID, primary_key=True),
        sa.Column("schedule", sa.String(255)),
        sa.Column("date_time", MOMENT),
        sa.Column("params", sa.Text),
        sa.Column("status", sa.Boolean),
        sa.Column("stay_alive", sa.Boolean),
        sa.Column("description", sa.Text),
        sa.Column("report_id", sa.Integer),
        sa.Column("worker_id", sa.Integer),
        sa.Column("reminder_id", sa.Integer),
        sa.Column("user_id", sa.Integer),
        sa.Column("group_id", sa.Integer),
        sa.Column("language_id", sa.Integer),
        sa.Column("name", sa.String(255)),
        sa.Column("event_id", sa.Integer),
        sa.Column("system_id", sa.Integer),
        sa.Column("timezone", sa.String(64)),
        sa.Column("retry", sa.Text),
        sa.Column("misfire_policy", sa.String(16)),
        sa.Column("misfire_window_ms", sa.BigInteger),
        sa.Column("misfire_cap", sa.Integer),
        sa.Column("overlap_policy", sa.String(16)),
        sa.Column("timeout_ms", sa.BigInteger),
        sa.Column("jitter_ms", sa.BigInteger),
        sa.Column("starts_at", MOMENT),
        sa.Column("ends_at", MOMENT),
        sa.Column("queue", sa.String(255)),
        sa.Column("source", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False, server_default=""),
        sa.Column("updated_at", MOMENT, nullable=False, server_default=""),
    ]


def _executions() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", ID, primary_key=True),
        sa.Column("scheduler_id", ID, sa.ForeignKey("Scheduler.id"), nullable=False),
        sa.Column("execution_key", sa.String(255), nullable=False),
        sa.Column("executed_at", MOMENT, nullable=False),
        sa.Column("container_id", sa.String(255), nullable=False),
        sa.Column("due_at", MOMENT),
        sa.Column("state", sa.String(16), nullable=False, server_default="succeeded"),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("deaths", sa.Integer, nullable=False, server_default="0"),
        sa.Column("crashes", sa.Integer, nullable=False, server_default="0"),
        sa.Column("version", sa.Integer, nullable=False, server_default="1"),
        sa.Column("task_type", sa.String(32), nullable=False, server_default=""),
        sa.Column("task_id", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("queue", sa.String(255), nullable=False, server_default="cron_scheduler"),
        sa.Column("params", sa.Text),
        sa.Column("retry", sa.Text),
        sa.Column("timeout_ms", sa.BigInteger),
        sa.Column("owner", sa.String(255)),
        sa.Column("lease_until", MOMENT),
        sa.Column("next_attempt_at", MOMENT),
        sa.Column("check_at", MOMENT),
        sa.Column("published_at", MOMENT),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.Column("last_error", sa.Text),
        sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default="0"),
        sa.Column("last_due_at", MOMENT),
        sa.Column("missed", sa.Integer, nullable=False, server_default="0"),
    ]


def upgrade() -> None:
    """Make what is missing, and read what was there."""
    now: datetime = context.config.attributes["now"]
    had_schedulers = _make_or_complete("Scheduler", _schedulers())
    had_executions = _make_or_complete("SchedulerExecution", _executions())
    _make_others()
    if had_schedulers:
        adopt_schedulers(op.get_bind(), now)
    if had_executions:
        adopt_executions(op.get_bind(), now)
    _make_indexes()
    keep_up_times(op.get_bind())
    _insert_cleanup(now)


def _make_or_complete(name: str, columns: list[sa.Column[Any]]) -> bool:
    """Make a table, or add what it lacks; tells whether it was there."""
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, sqlite_autoincrement=True)
        return False
    # By a SELECT, not by reflection: that stumbles over types such as TINYINT(1) in SQLite.
    nothing = sa.select(sa.text("*")).select_from(sa.table(name)).limit(0)
    there = set(op.get_bind().execute(nothing).keys())
    for column in columns:
        if column.name not in there:
            op.add_column(name, column)
    return True


def _make_others() -> None:
    op.create_table(
        "SchedulerPlan",
        sa.Column(
            "scheduler_id", ID, sa.ForeignKey("Scheduler.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("next_due_at", MOMENT),
        sa.Column("planned_at", MOMENT, nullable=False),
        sa.Column("problem", sa.Text),
    )
    op.create_table(
        "ExecutionAttempt",
        *_key_of_an_attempt(),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("ending", sa.String(16)),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Integer),
        sa.Column("pid", sa.Integer),
        sa.Column("error", sa.Text),
        sa.Column("peak_memory", sa.BigInteger),
        sa.Column("cpu_seconds", sa.Float),
    )
    op.create_table(
        "AttemptOutput",
        *_key_of_an_attempt(),
        sa.Column("stdout_head", sa.Text, nullable=False),
        sa.Column("stdout_tail", sa.Text, nullable=False),
        sa.Column("stdout_bytes", sa.BigInteger, nullable=False),
        sa.Column("stderr_head", sa.Text, nullable=False),
        sa.Column("stderr_tail", sa.Text, nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "FailedTask",
        sa.Column("id", ID, primary_key=True),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("scheduler_id", ID, nullable=False),
        sa.Column("schedule_name", sa.String(255), nullable=False),
        sa.Column("execution_key", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("task_type", sa.String(32), nullable=False),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("queue", sa.String(255), nullable=False),
        sa.Column("params", sa.Text, nullable=False),
        sa.Column("failed_at", MOMENT, nullable=False),
        sa.Column("failed_reason", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_count", sa.Integer, nullable=False),
        sa.Column("resolved_at", MOMENT),
        sa.Column("resolution", sa.String(16)),
        sa.Column("note", sa.Text),
        sqlite_autoincrement=True,
    )


def _key_of_an_attempt() -> list[sa.Column[Any]]:
    execution = sa.ForeignKey("SchedulerExecution.id", ondelete="CASCADE")
    return [
        sa.Column("execution_id", ID, execution, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    ]


def _make_indexes() -> None:
    op.create_index("ux_scheduler_name", "Scheduler", ["name"], unique=True)
    op.create_index("ix_scheduler_updated_at", "Scheduler", ["updated_at"])
    op.create_index("ix_plan_next_due_at", "SchedulerPlan", ["next_due_at"])
    op.create_index(
        "ux_execution_key", "SchedulerExecution", ["scheduler_id", "execution_key"], unique=True
    )
    op.create_index("ix_execution_check", "SchedulerExecution", ["state", "check_at"])
    op.create_index(
        "ix_execution_lease",
        "SchedulerExecution",
        ["state", "lease_until"],
        sqlite_where=sa.text("lease_until IS NOT NULL"),
    )
    op.create_index(
        "ix_execution_schedule", "SchedulerExecution", ["scheduler_id", "state", "due_at"]
    )
    op.create_index("ix_failed_resolution", "FailedTask", ["resolution", "id"])
    op.create_index("ix_failed_execution", "FailedTask", ["execution_id"])


def _insert_cleanup(now: datetime) -> None:
    """The daily cleanup is a schedule like any other, so that one replica does it (C13)."""
    text = f"{now.astimezone(UTC).replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}"
    row = sa.table(
        "Scheduler",
        *map(sa.column, ("name", "schedule", "timezone", "status", "params", "system_id")),
        *map(sa.column, ("description", "created_at", "updated_at")),
    )
    op.get_bind().execute(
        sa.insert(row),
        {
            "name": "cronhare-cleanup",
            "schedule": "0 3 * * *",
            "timezone": "UTC",
            "status": True,
            "params": "{}",
            "system_id": 1,
            "description": "deletes history that is older than its retention",
            "created_at": text,
            "updated_at": text,
        },
    )
