"""What counts as a gap between two looks, and for how long nothing is given up after one."""

from datetime import datetime, timedelta

import pytest

from cronhare.application.scheduling.reconcile import GapDetector, GracePeriod
from tests.unit.application.house import LEASE, NOON

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
EVERY = 5 * SECOND


@pytest.mark.parametrize("leap", [LEASE / 3, -LEASE / 3], ids=str)
def test_a_leap_is_told_whichever_way_it_went(leap: timedelta) -> None:
    small, large = (GapDetector(every=EVERY, lease=LEASE) for _ in range(2))
    further = leap + (SECOND if leap > timedelta(0) else -SECOND)
    for gaps in (small, large):
        assert gaps.check(NOON, 100.0) is None

    assert small.check(NOON + EVERY + leap, 105.0) is None
    told = large.check(NOON + EVERY + further, 105.0)

    assert told == f"the ledger's clock has leapt by {further.total_seconds():+.0f} s against ours"


def test_a_sleep_is_told_beyond_the_longest_rest() -> None:
    gaps = GapDetector(every=EVERY, lease=LEASE)
    gaps.check(NOON, 100.0)

    assert gaps.check(NOON + 15 * SECOND, 115.0) is None
    assert gaps.check(NOON + 31 * SECOND, 131.0) == "nobody looked for 16 s"


@pytest.mark.parametrize("now", [NOON + LEASE, NOON - HOUR], ids=["after it", "set back"])
def test_a_grace_period_ends_after_a_lease_and_where_the_clock_is_set_back(now: datetime) -> None:
    grace = GracePeriod(LEASE, owners=lambda: ["ant"])
    grace.begin("the ledger was away")

    assert grace.lasts(NOON)
    assert grace.lasts(NOON + LEASE - SECOND)
    assert not grace.lasts(now)
