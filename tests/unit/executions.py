"""Executions for tests that need one in some state."""

from datetime import UTC, datetime

import msgspec

from cronhare.domain.execution import Execution, State
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def execution(state: State = State.CLAIMED, **changes: object) -> Execution:
    """Describe an execution that is due at noon."""
    due = Execution(
        id=1,
        scheduler_id=1,
        schedule_name="report",
        key="cron-2026-3-2-12-0",
        state=state,
        task=TaskRef("report", 25),
        params="{}",
        queue="cron_scheduler",
        attempt=1,
        deaths=0,
        version=1,
        due_at=NOON,
        executed_at=NOON,
        container_id="ant",
    )
    return msgspec.structs.replace(due, **changes)
