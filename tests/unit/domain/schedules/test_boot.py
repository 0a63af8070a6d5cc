from datetime import UTC, datetime, timedelta

import pytest

from cronhare.domain.schedules.keys import LONGEST_AGO, Boot

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "changed", "concerned"),
    [
        (60, timedelta(seconds=61), True),
        (60, timedelta(seconds=60), False),
        (60, timedelta(seconds=5), False),
        (LONGEST_AGO.total_seconds(), timedelta(days=9), True),
        (LONGEST_AGO.total_seconds() + 1, timedelta(days=9), False),
    ],
)
def test_a_boot_concerns_what_was_there_before_it_for_a_day(
    ago: float, changed: timedelta, *, concerned: bool
) -> None:
    assert (Boot("b", ago=ago).why_not(NOON - changed, now=NOON) is None) is concerned
