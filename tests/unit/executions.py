"""Schedules, executions and failures for tests that need one, and which states may follow which."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
import msgspec

from cronhare.domain.cron import CronExpression, find_zone
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.schedules.schedule import Recurring, Schedule
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
UTC_ZONE = find_zone("UTC")


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


def archived(**changes: Any) -> Archived:  # noqa: ANN401
    """Describe a failure of noon, after three retries."""
    failed = Archived(
        id=5,
        execution_id=7,
        scheduler_id=16,
        schedule_name="report",
        execution_key="cron-2026-3-2-12-0",
        kind="failed",
        task_type="report",
        task_id=25,
        queue="cron_scheduler",
        params='{"a":1}',
        failed_at=NOON,
        failed_reason="Connection timeout",
        error=None,
        attempts=4,
        retry_count=3,
    )
    return attrs.evolve(failed, **changes)


def schedule(text: str = "0 * * * *", **changes: object) -> Schedule:
    """Describe a schedule that is due each hour, and was changed an hour before noon."""
    hourly = Schedule(
        id=16,
        name="report",
        task=TaskRef("report", 25),
        timing=Recurring(CronExpression.parse(text), UTC_ZONE),
        changed_at=NOON - timedelta(hours=1),
    )
    return msgspec.structs.replace(hourly, **changes)


#: Where each of `STARTABLE` may go: to quarantine if its row is broken or refused (ADR 15), to
#: failed if another program's worker reports so, to held if a gate keeps it back.
_FROM_WAITING: Final = frozenset(
    {
        State.RUNNING,
        State.CANCELLED,
        State.HANDED_OVER,
        State.QUARANTINED,
        State.FAILED,
        State.HELD,
    }
)

ALLOWED_TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.CLAIMED: _FROM_WAITING | {State.PUBLISHED, State.SKIPPED},
    State.HELD: frozenset({State.CLAIMED, State.CANCELLED, State.QUARANTINED, State.SKIPPED}),
    State.PUBLISHED: _FROM_WAITING | {State.SKIPPED},  # expired
    State.RUNNING: frozenset(
        {State.SUCCEEDED, State.RETRYING, State.FAILED, State.QUARANTINED, State.CANCELLED}
    ),
    State.RETRYING: _FROM_WAITING,
    State.FAILED: frozenset({State.CLAIMED}),  # replayed
    State.QUARANTINED: frozenset({State.CLAIMED}),  # released
    State.SUCCEEDED: frozenset(),
    State.CANCELLED: frozenset(),
    State.SKIPPED: frozenset(),
    State.HANDED_OVER: frozenset({State.FAILED}),  # as the other program reports
}
