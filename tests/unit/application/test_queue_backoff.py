"""How long a queue is left out that took nothing."""

import pytest

from cronhare.application.redelivery.queue_backoff import QueueBackoff


@pytest.fixture
def backoff() -> QueueBackoff:
    return QueueBackoff(most=2, longest=25.6, remembered_for=4.0)


def rest(backoff: QueueBackoff, now: float, *, timed_out: bool, queue: str = "a") -> float:
    """Note a try in vain, and tell for how many tenths of a second it is left out."""
    backoff.record_failure(queue, now, timed_out=timed_out)
    return next(n for n in range(1_000) if not backoff.is_paused(queue, now + n / 10)) / 10


def test_one_that_does_not_answer_is_left_out_for_twice_as_long_each_time(
    backoff: QueueBackoff,
) -> None:
    rests = [rest(backoff, 1_000.0 * n, timed_out=True) for n in range(20)]

    assert rests[:6] == [1, 2, 4, 8, 16, 25.6]
    assert {*rests[6:]} == {25.6}


def test_one_that_is_missing_or_full_is_asked_each_second(backoff: QueueBackoff) -> None:
    assert [rest(backoff, 1_000.0 * n, timed_out=False) for n in range(9)] == [1] * 9


def test_it_is_known_for_a_while_after_its_rest_and_not_for_hours(backoff: QueueBackoff) -> None:
    backoff.record_failure("a", 0.0, timed_out=False)

    assert [backoff.failed_recently("a", now) for now in (0.0, 4.9, 5.0, 36_000.0)] == [
        True, True, False, False,
    ]  # fmt: skip
    backoff.record_failure("a", 50.0, timed_out=False)
    backoff.reset("a")
    assert not backoff.failed_recently("a", 50.0)


def test_no_more_are_known_at_a_time_and_the_next_is_once_one_is_forgotten(
    backoff: QueueBackoff,
) -> None:
    for queue in ("a", "b", "c"):
        backoff.record_failure(queue, 0.0, timed_out=True)
    at_first = [backoff.is_paused(queue, 0.5) for queue in ("a", "b", "c")]
    backoff.record_failure("a", 4.0, timed_out=True)

    backoff.record_failure("c", 6.0, timed_out=True)

    assert at_first == [True, True, False]
    assert [backoff.failed_recently(queue, 6.0) for queue in ("a", "b", "c")] == [True, False, True]
