"""The story of an execution, as the ledger knows it."""

from datetime import timedelta

from cronhare.application.administration.story import StepView, Stories
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.retries.policy import RetryPolicy
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    FOR_GOOD,
    IN_30_S,
    NOON,
    SECOND,
    Ledger,
    memory_ledger,
)


def told(ledger: Ledger, execution_id: int) -> list[StepView]:
    policies = RetryPolicies(RetryPolicy())
    stories = Stories(
        records=ledger.records, names=ledger.asked, policies=policies, now=lambda: ledger.now
    )
    return [*stories.of(execution_id).steps]


def in_brief(steps: list[StepView]) -> list[tuple[object, ...]]:
    """Waits by their seconds, attempts by what was decided, the end by its state."""
    found: list[tuple[object, ...]] = []
    for step in steps:
        match step.kind:
            case "waited":
                found.append(("waited", step.seconds, step.planned_seconds))
            case "tried":
                assert step.attempt is not None
                found.append((step.attempt.attempt, step.decision, step.reason))
            case "stands":
                found.append((step.state, step.reason))
    return found


def test_a_retry_has_its_wait_and_its_reason() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    claimed = ledger.claimed()
    ledger.clock.advance(SECOND)
    retried = ledger.finished(claimed, IN_30_S)
    ledger.succeeded(retried)

    assert in_brief(told(ledger, claimed.id)) == [
        ("waited", 1.0, None),
        (1, "tried again", "retry 1/3: the server did not answer"),
        ("waited", 30.0, 30.0),
        (2, "succeeded", "succeeded"),
        ("succeeded", None),
    ]


def test_a_replay_is_told_apart_from_a_retry() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    policy = RetryPolicy(attempts=1)
    failed = ledger.failed(retry=policy)
    ledger.clock.advance(timedelta(hours=1))
    [again] = ledger.records.replay([failed.id], now=ledger.now)
    ledger.finished(again, FOR_GOOD)

    steps = told(ledger, again.id)
    first, wait, second, stands = in_brief(steps)

    assert first == (1, "failed for good, and replayed later", FOR_GOOD.reason)
    assert wait == ("waited", 3600.0, None)
    assert second == (2, "failed for good", FOR_GOOD.reason)
    assert stands[0] == "failed"
    assert steps[0].why == "it has no retries"
