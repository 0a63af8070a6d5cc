"""The ledger, new or around tables `Scheduler` and `SchedulerExecution` that are there.

Tables that exist are adopted: they get the columns that they lack, and keep every row.

There is no way back: a downgrade would have to delete the ledger.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from cronhare.adapters.sql.migrations.adoption import adopt_executions, adopt_schedulers
from cronhare.adapters.sql.migrations.columns import (
    FLAG,
    ID,
    LONG_TEXT,
    MOMENT,
    TABLE_OPTIONS,
    add_columns,
    columns_of,
    indexes_of,
    schema,
    string,
)

revision = "0001"
down_revision = None


def _of_schedule(**options: Any) -> list[sa.ForeignKey]:  # noqa: ANN401 - SQLAlchemy's own
    return [sa.ForeignKey("Scheduler.id", **options)] if schema().references_schedules else []


def _schedulers() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", ID, primary_key=True),
        sa.Column("schedule", string(255)),
        sa.Column("date_time", MOMENT),
        sa.Column("params", LONG_TEXT),
        sa.Column("status", FLAG),
        sa.Column("stay_alive", FLAG),
        sa.Column("description", LONG_TEXT),
        sa.Column("report_id", sa.Integer),
        sa.Column("worker_id", sa.Integer),
        sa.Column("reminder_id", sa.Integer),
        sa.Column("user_id", sa.Integer),
        sa.Column("group_id", sa.Integer),
        sa.Column("language_id", sa.Integer),
        sa.Column("name", string(255)),
        sa.Column("event_id", sa.Integer),
        sa.Column("system_id", sa.Integer),
        sa.Column("timezone", string(64)),
        sa.Column("retry", LONG_TEXT),
        sa.Column("misfire_policy", string(16)),
        sa.Column("misfire_window_ms", sa.BigInteger),
        sa.Column("misfire_cap", sa.Integer),
        sa.Column("overlap_policy", string(16)),
        sa.Column("timeout_ms", sa.BigInteger),
        sa.Column("jitter_ms", sa.BigInteger),
        sa.Column("starts_at", MOMENT),
        sa.Column("ends_at", MOMENT),
        sa.Column("queue", string(255)),
        sa.Column("source", LONG_TEXT),
        *schema().timestamp_columns(),
    ]


def _executions() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", ID, primary_key=True),
        sa.Column("scheduler_id", ID, *_of_schedule(), nullable=False),
        sa.Column("execution_key", string(255), nullable=False),
        sa.Column("executed_at", MOMENT, nullable=False),
        sa.Column("container_id", string(255), nullable=False),
        sa.Column("due_at", MOMENT),
        sa.Column("state", string(16), nullable=False, server_default="succeeded"),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("deaths", sa.Integer, nullable=False, server_default="0"),
        sa.Column("crashes", sa.Integer, nullable=False, server_default="0"),
        sa.Column("version", sa.Integer, nullable=False, server_default="1"),
        sa.Column("task_type", string(32), nullable=False, server_default=""),
        sa.Column("task_id", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("queue", string(255), nullable=False, server_default="cron_scheduler"),
        sa.Column("params", LONG_TEXT),
        sa.Column("retry", LONG_TEXT),
        sa.Column("timeout_ms", sa.BigInteger),
        sa.Column("owner", string(255)),
        sa.Column("lease_until", MOMENT),
        sa.Column("next_attempt_at", MOMENT),
        sa.Column("check_at", MOMENT),
        sa.Column("published_at", MOMENT),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.Column("last_error", LONG_TEXT),
        sa.Column("cancel_requested", FLAG, nullable=False, server_default="0"),
        sa.Column("last_due_at", MOMENT),
        sa.Column("missed", sa.Integer, nullable=False, server_default="0"),
    ]


def upgrade() -> None:
    """Make what is missing, and read what was there.

    Where each step commits by itself, it may find what one that was cut off has left.
    """
    now: datetime = context.config.attributes["now"]
    schema().prepare_adoption(op.get_bind())
    had_schedulers = _make_or_complete("Scheduler", _schedulers())
    had_executions = _make_or_complete("SchedulerExecution", _executions())
    _make_others()
    if had_schedulers:
        adopt_schedulers(op.get_bind(), now)
    if had_executions:
        adopt_executions(op.get_bind(), now)
    _make_indexes()
    schema().create_timestamp_triggers(op.get_bind())
    _insert_cleanup(now)


def _make_or_complete(name: str, columns: list[sa.Column[Any]]) -> bool:
    """Make a table, or add what it lacks; tells whether it was there."""
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, **TABLE_OPTIONS)
        return False
    add_columns(name, *columns)
    return True


def _make(name: str, *columns: sa.Column[Any]) -> None:
    """Make a table of our own. One with all its columns may be what was left of a try."""
    if not schema().has_transactional_ddl and sa.inspect(op.get_bind()).has_table(name):
        lacking = {column.name for column in columns} - columns_of(name)
        if not lacking:
            return
    op.create_table(name, *columns, **TABLE_OPTIONS)


def _make_others() -> None:
    _make(
        "SchedulerPlan",
        sa.Column(
            "scheduler_id",
            ID,
            *_of_schedule(ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("next_due_at", MOMENT),
        sa.Column("planned_at", MOMENT, nullable=False),
        sa.Column("problem", LONG_TEXT),
    )
    _make(
        "ExecutionAttempt",
        *_key_of_an_attempt(),
        sa.Column("node", string(255), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("ending", string(16)),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Integer),
        sa.Column("pid", sa.Integer),
        sa.Column("error", LONG_TEXT),
        sa.Column("peak_memory", sa.BigInteger),
        sa.Column("cpu_seconds", sa.Double),
    )
    _make(
        "AttemptOutput",
        *_key_of_an_attempt(),
        sa.Column("stdout_head", LONG_TEXT, nullable=False),
        sa.Column("stdout_tail", LONG_TEXT, nullable=False),
        sa.Column("stdout_bytes", sa.BigInteger, nullable=False),
        sa.Column("stderr_head", LONG_TEXT, nullable=False),
        sa.Column("stderr_tail", LONG_TEXT, nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger, nullable=False),
    )
    _make(
        "FailedTask",
        sa.Column("id", ID, primary_key=True),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("scheduler_id", ID, nullable=False),
        sa.Column("schedule_name", string(255), nullable=False),
        sa.Column("execution_key", string(255), nullable=False),
        sa.Column("kind", string(16), nullable=False),
        sa.Column("task_type", string(32), nullable=False),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("queue", string(255), nullable=False),
        sa.Column("params", LONG_TEXT, nullable=False),
        sa.Column("failed_at", MOMENT, nullable=False),
        sa.Column("failed_reason", LONG_TEXT, nullable=False),
        sa.Column("error", LONG_TEXT),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_count", sa.Integer, nullable=False),
        sa.Column("resolved_at", MOMENT),
        sa.Column("resolution", string(16)),
        sa.Column("note", LONG_TEXT),
    )


def _key_of_an_attempt() -> list[sa.Column[Any]]:
    execution = sa.ForeignKey("SchedulerExecution.id", ondelete="CASCADE")
    kind = schema().execution_id_type(op.get_bind())
    return [
        sa.Column("execution_id", kind, execution, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    ]


def _make_indexes() -> None:
    _index("ux_scheduler_name", "Scheduler", ["name"], unique=True)
    _index("ix_scheduler_updated_at", "Scheduler", ["updated_at"])
    _index("ix_plan_next_due_at", "SchedulerPlan", ["next_due_at"])
    _index("ux_execution_key", "SchedulerExecution", ["scheduler_id", "execution_key"], unique=True)
    _index("ix_execution_check", "SchedulerExecution", ["state", "check_at"])
    if schema().has_partial_indexes:  # the others find the few by their state
        of_some = sa.text("lease_until IS NOT NULL")
        _index(
            "ix_execution_lease",
            "SchedulerExecution",
            ["state", "lease_until"],
            sqlite_where=of_some,
            postgresql_where=of_some,
        )
    _index("ix_execution_schedule", "SchedulerExecution", ["scheduler_id", "state", "due_at"])
    _index("ix_failed_resolution", "FailedTask", ["resolution", "id"])
    _index("ix_failed_execution", "FailedTask", ["execution_id"])


def _index(name: str, table: str, columns: list[str], **options: Any) -> None:  # noqa: ANN401 - Alembic's own
    if schema().has_transactional_ddl or name not in indexes_of(table):
        op.create_index(name, table, columns, **options)


def _insert_cleanup(now: datetime) -> None:
    """The daily cleanup is a schedule like any other, so that one replica does it."""
    text = f"{now.astimezone(UTC).replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}"
    row = sa.table(
        "Scheduler",
        *map(sa.column, ("name", "schedule", "timezone", "status", "params", "system_id")),
        *map(sa.column, ("description", "created_at", "updated_at")),
    )
    is_there = sa.select(row.c.name).where(row.c.name == "cronhare-cleanup")
    if op.get_bind().execute(is_there).first() is not None:
        return
    op.get_bind().execute(
        sa.insert(row),
        {
            "name": "cronhare-cleanup",
            "schedule": "0 3 * * *",
            "timezone": "UTC",
            "status": 1,
            "params": "{}",
            "system_id": 1,
            "description": "deletes history that is older than its retention",
            "created_at": text,
            "updated_at": text,
        },
    )
