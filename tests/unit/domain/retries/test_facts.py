import pytest

from cronhare.domain.retries.policy import POLICIES, Backoff, Jitter, RetryPolicy, retry_facts


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
