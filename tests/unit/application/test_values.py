import pytest

from cronhare.application.administration.views.values import (
    completed_at,
    outward_status,
    retry_facts,
)
from cronhare.domain.execution import State
from cronhare.domain.retries.policy import POLICIES, Backoff, Jitter, RetryPolicy
from tests.unit.executions import NOON, execution


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
