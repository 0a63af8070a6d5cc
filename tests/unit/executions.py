"""Executions for tests that need one in some state, and which states may follow which."""

from datetime import UTC, datetime
from typing import Final

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
