"""Lists of very many executions and failures are found by their task, and by their day.

Without the first, the executions of a task that seldom runs are found by reading all. A claim
enters itself once, and is not moved. One of types and numbers would cost PostgreSQL too much: there
each change of an execution is entered anew in all of its indexes.
"""

from cronhare.adapters.sql.migrations.columns import add_index

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Add the indexes."""
    add_index("ix_execution_task", "SchedulerExecution", ["task_name"])
    add_index("ix_failed_at", "FailedTask", ["failed_at"])
    add_index("ix_scheduler_queue", "Scheduler", ["queue", "status", "stay_alive", "system_id"])
