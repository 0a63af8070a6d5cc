"""What views show in another form or under another name than the values that they are made of."""

from datetime import timedelta
from typing import Any

import attrs
import msgspec
import pytest

from cronhare.application.administration.views.executions import AttemptView, ExecutionView
from cronhare.application.administration.views.failures import FailureView
from cronhare.application.administration.views.values import (
    CrashView,
    ErrorView,
    RetryView,
    completed_at,
    outward_status,
    retry_facts,
)
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.retries.outcome import Crash, CrashPolicy, Ending, ErrorClass, TaskError
from cronhare.domain.retries.policy import POLICIES, Backoff, BackoffType, Jitter, RetryPolicy
from cronhare.domain.schedules.keys import Trigger
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import Attempt
from cronhare.ports.runner import TaskReport
from tests.unit.executions import NOON, execution

SECOND = timedelta(seconds=1)

POLICY = RetryPolicy(
    attempts=7,
    backoff=Backoff(
        type=BackoffType.SEQUENCE,
        delay=1_500,
        multiplier=3.5,
        max_delay=60_000,
        jitter=Jitter.BOTH,
        sequence=(2_000, 4_250),
    ),
    crashes=CrashPolicy(limit=2, window=60 * SECOND, timeouts=False),
)

RETRY: dict[str, Any] = {
    "attempts": 7,
    "backoff": "sequence",
    "delay_seconds": 1.5,
    "delays_seconds": (2.0, 4.25),
    "multiplier": 3.5,
    "max_delay_seconds": 60.0,
    "jitter": "both",
    "crashes": CrashView(limit=2, window_seconds=60.0, timeouts=False),
}

ERROR = TaskError(
    message="no",
    error_class=ErrorClass.RATE_LIMITED,
    retry_after=1.5 * SECOND,
    stack="line 3",
)

SHOWN_ERROR = ErrorView(
    message="no", error_class="rate-limited", retry_after_seconds=1.5, stack="line 3"
)

REPORT = TaskReport(progress=0.5, progress_text="half", result='{"rows":[1]}')

EXECUTION = execution(
    State.PUBLISHED,
    queue="letters",
    crashes=(Crash(NOON, Ending.LOST, "ant-7"),),
    params='{"a":1}',
    retry=POLICY,
    timeout=11.5 * SECOND,
    check_at=NOON + SECOND,
    held_by="key a",
)

ATTEMPT = Attempt(
    execution_id=101,
    attempt=2,
    node="ant-7",
    started_at=NOON,
    finished_at=NOON + 2.5 * SECOND,
    error=ERROR.as_json(),
    peak_memory=5,
)

ARCHIVED = Archived(
    id=201,
    execution_id=101,
    scheduler_id=103,
    schedule_name="mails",
    execution_key="manual-1",
    kind="quarantined",
    task_type="worker",
    task_id=102,
    queue="letters",
    params="[1]",
    failed_at=NOON + SECOND,
    failed_reason="3 crashes",
    attempts=4,
    retry_count=3,
    error=ERROR.as_json(),
    options='{"retry":null}',
    crash_count=3,
    first_crash_at=NOON,
    topic="letters.due",
)

#: Nothing is left of the execution, and it was no poison pill.
BARE = attrs.evolve(
    ARCHIVED, execution_id=0, kind="failed", topic=None, error=None, options=None, crash_count=None
)


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        (
            ExecutionView.of(EXECUTION, now=NOON, report=REPORT),
            {
                "trigger": Trigger.TIME,
                "status": "waiting",
                "crashed_at": (NOON,),
                "params": {"a": 1},
                "retry": RetryView(**RETRY),
                "timeout_seconds": 11.5,
                "sent_again_at": NOON + SECOND + timedelta(minutes=5),
                "waits_for": "a free place of a worker that serves queue letters",
                "completed_at": None,
                "progress": 0.5,
                "result": {"rows": [1]},
                "held_by": None,
            },
        ),
        (
            ExecutionView.of(msgspec.structs.replace(EXECUTION, state=State.HELD), now=NOON),
            {"held_by": "key a", "result": None},
        ),
        (
            AttemptView.of(ATTEMPT, REPORT),
            {
                "run_seconds": 2.5,
                "error": SHOWN_ERROR,
                "peak_memory_bytes": 5,
                "result": {"rows": [1]},
            },
        ),
        (
            FailureView.of(ARCHIVED),
            {
                "task": TaskRef("worker", 102),
                "params": [1],
                "error": SHOWN_ERROR,
                "options": {"retry": None},
                "poison_key": "poison:letters:101",
                "report_id": None,
            },
        ),
        (
            FailureView.of(BARE),
            {
                "execution_id": None,
                "error": None,
                "options": None,
                "poison_key": None,
            },
        ),
    ],
)
def test_what_is_not_copied_is_shown_in_the_form_of_a_view(
    view: Any,  # noqa: ANN401
    shown: dict[str, Any],
) -> None:
    assert {name: getattr(view, name) for name in shown} == shown


# Statuses, and policies in words


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetryPolicy(), "4 runs, waits 30 s, 1 min, 2 min, 3 min 30 s in all"),
        (RetryPolicy(attempts=1), "1 run, no retry"),
        (RetryPolicy(attempts=2), "2 runs, waits 30 s"),
        (
            RetryPolicy(attempts=20, backoff=Backoff(max_delay=3_600_000)),
            "20 runs, waits 30 s, 1 min, 2 min, 4 min, 8 min, …, 13 h 3 min 30 s in all",
        ),
        (
            RetryPolicy(attempts=3, backoff=Backoff(delay=10_000, jitter=Jitter.FULL)),
            "3 runs, waits 10 s, 20 s, 30 s in all; each anything up to that",
        ),
        (POLICIES["lease-style"], "4 runs, waits 10 min, 20 min, 30 min, 1 h in all"),
        (POLICIES["payments"], "3 runs, waits 1 min, 1 min, 2 min in all"),
    ],
)
def test_a_policy_is_told_by_its_runs_and_waits(policy: RetryPolicy, expected: str) -> None:
    assert retry_facts(policy) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.CLAIMED, "waiting"),
        (State.HELD, "waiting"),
        (State.PUBLISHED, "waiting"),
        (State.RUNNING, "active"),
        (State.RETRYING, "active"),
        (State.SUCCEEDED, "completed"),
        (State.FAILED, "failed"),
        (State.QUARANTINED, "quarantined"),
        (State.CANCELLED, "cancelled"),
        (State.SKIPPED, "skipped"),
        (State.HANDED_OVER, "handed-over"),
    ],
)
def test_each_state_has_a_name_outside_and_stays_active_between_two_attempts(
    state: State, expected: str
) -> None:
    ended = execution(state, retry=POLICIES["emails"], finished_at=NOON)

    assert outward_status(ended) == outward_status(execution(state)) == expected
    assert completed_at(ended) == (NOON if expected == "completed" else None)
    of_lease_style = {State.RETRYING: "failed", State.FAILED: "terminated"}.get(state, expected)
    assert outward_status(execution(state, retry=POLICIES["lease-style"])) == of_lease_style
