from datetime import timedelta

import pytest

from cronhare.domain.retries.limits import BreakerPolicy


@pytest.mark.parametrize(("failed", "succeeded"), [(5, 5), (9, 0), (1, 9)])
def test_at_half_of_ten_attempts_or_with_fewer_than_ten_it_stays_closed(
    failed: int, succeeded: int
) -> None:
    assert not BreakerPolicy().trips(failed, succeeded)


@pytest.mark.parametrize(("failed", "succeeded"), [(6, 4), (10, 0), (51, 49)])
def test_above_half_of_ten_attempts_or_more_it_opens(failed: int, succeeded: int) -> None:
    assert BreakerPolicy().trips(failed, succeeded)


def test_by_default_five_minutes_count_and_it_pauses_for_one() -> None:
    policy = BreakerPolicy()

    assert (policy.error_rate, policy.least) == (0.5, 10)
    assert (policy.window, policy.pause) == (timedelta(minutes=5), timedelta(minutes=1))
