from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhare.domain.retries.limits import (
    LONGEST_DEFERRAL,
    PARTS,
    BreakerPolicy,
    Budget,
    BudgetPolicy,
    OnExhausted,
    as_asked,
    ask_budget,
)
from cronhare.domain.retries.retry import Fail, RetryAfter

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
AT_ONCE = RetryAfter(timedelta(0), "retry 1/3: the server did not answer")


def per_minute(most: int, on_exhausted: OnExhausted = OnExhausted.DEFER) -> BudgetPolicy:
    return BudgetPolicy(most=most, window=MINUTE, on_exhausted=on_exhausted)


def new(policy: BudgetPolicy) -> Budget:
    return as_asked("reports", None, policy, now=NOON)


def places(policy: BudgetPolicy, asked_at: list[datetime]) -> tuple[Budget, list[datetime]]:
    """Ask at each of these moments for a retry at once; give when each was granted."""
    budget, found = new(policy), []
    for now in asked_at:
        answer = ask_budget(budget, policy, AT_ONCE, now=now)
        assert isinstance(answer.verdict, RetryAfter)
        budget = answer.budget
        found.append(now + answer.verdict.delay)
    return budget, found


def is_kept(granted: list[datetime], policy: BudgetPolicy) -> bool:
    ordered = sorted(granted)
    return all(
        after - before >= policy.window
        for before, after in zip(ordered, ordered[policy.most :], strict=False)
    )


def test_a_wave_is_spread_at_exactly_the_rate() -> None:
    _, granted = places(BudgetPolicy(), [NOON] * 250)

    assert granted == [NOON] * 100 + [NOON + MINUTE] * 100 + [NOON + 2 * MINUTE] * 50


def test_a_place_farther_away_than_a_week_is_none() -> None:
    policy = BudgetPolicy(most=1, window=timedelta(days=1))
    budget, _ = places(policy, [NOON] * (LONGEST_DEFERRAL.days + 1))

    assert isinstance(ask_budget(budget, policy, AT_ONCE, now=NOON).verdict, Fail)


def test_a_larger_limit_lets_nobody_in_before_the_places_that_are_given() -> None:
    spent, granted = places(per_minute(2), [NOON] * 20)

    larger = as_asked("reports", spent, per_minute(5), now=NOON + 30 * SECOND)
    answer = ask_budget(larger, per_minute(5), AT_ONCE, now=NOON + 30 * SECOND)

    assert answer.verdict.reason.startswith("retry 1/3")
    assert isinstance(answer.verdict, RetryAfter)
    assert NOON + 30 * SECOND + answer.verdict.delay == granted[-1]


@pytest.mark.parametrize("most", [3, PARTS + 5])
@settings(max_examples=30)
@given(
    gaps=st.lists(st.integers(0, 40_000), min_size=1, max_size=30),
    bursts=st.lists(st.integers(1, 8), min_size=30, max_size=30),
)
def test_no_window_ever_holds_more_than_the_limit(
    most: int, gaps: list[int], bursts: list[int]
) -> None:
    policy = BudgetPolicy(most=most, window=timedelta(seconds=most))
    now, asked = NOON, []
    for gap, burst in zip(gaps, bursts, strict=False):
        now += timedelta(milliseconds=gap)
        asked += [now] * burst

    budget, granted = places(policy, asked)

    assert is_kept(granted, policy)
    assert len(budget.grants) <= 2 * PARTS


@given(most=st.integers(1, 1_000), crowd=st.integers(1, 1_500))
@settings(max_examples=60, deadline=None)
def test_a_crowd_is_staggered_within_the_rate(most: int, crowd: int) -> None:
    policy, budget, granted = per_minute(most), new(per_minute(most)), list[datetime]()
    for _ in range(crowd):
        place = budget.staggered_at(NOON)
        budget = budget.granted(place, now=NOON)
        granted.append(place)

    later = [place for place in granted if place > NOON]
    apart = Counter(later).values()
    assert granted == sorted(granted)
    assert is_kept(granted, policy)
    assert not apart or max(apart) <= -(-most // PARTS)
    assert granted[-1] - NOON <= 2 * (crowd // most) * MINUTE


def test_at_half_of_ten_attempts_or_with_fewer_than_ten_it_stays_closed() -> None:
    trips = BreakerPolicy().trips

    assert not any(trips(*ends) for ends in [(5, 5), (9, 0), (1, 9)])
    assert all(trips(*ends) for ends in [(6, 4), (10, 0), (51, 49)])
