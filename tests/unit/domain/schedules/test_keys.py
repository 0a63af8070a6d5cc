"""The keys of runs, and which schedules a boot concerns."""

from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.schedules import keys
from cronhare.domain.schedules.keys import (
    LONGEST_AGO,
    Boot,
    Trigger,
    cron_key,
    manual_key,
    once_key,
    trigger_of,
)

BERLIN = ZoneInfo("Europe/Berlin")

minutes = st.integers(0, 50_000_000).map(
    lambda number: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
)


@pytest.mark.parametrize(
    ("due", "key"),
    [
        (datetime(2025, 12, 12, 8, 0, tzinfo=UTC), "cron-2025-12-12-8-0"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "cron-2026-1-2-3-4"),
        (datetime(2026, 10, 20, 23, 59, tzinfo=UTC), "cron-2026-10-20-23-59"),
    ],
)
def test_a_key_names_the_minute_without_zero_padding(due: datetime, key: str) -> None:
    assert cron_key(due) == key


def test_the_two_passes_of_a_repeated_hour_have_two_keys() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)

    assert (cron_key(first), cron_key(second)) == ("cron-2026-10-25-0-30", "cron-2026-10-25-1-30")


def test_a_one_off_and_a_manual_run_have_keys_of_their_own() -> None:
    uuid = UUID("0b6b0f3e-6f0c-4c0c-9a53-0d5f7a3a2a11")

    assert once_key(datetime(2025, 12, 15, 15, 0, tzinfo=UTC)) == "once-2025-12-15-15-0"
    assert manual_key(uuid) == "manual-0b6b0f3e-6f0c-4c0c-9a53-0d5f7a3a2a11"


def test_each_beginning_of_a_key_tells_what_the_run_came_of() -> None:
    beginnings = {
        text for text in vars(keys).values() if isinstance(text, str) and text[-1:] == "-"
    }
    by_hand = {text for text in beginnings if trigger_of(f"{text}7") is Trigger.HAND}

    assert by_hand == {keys.MANUAL}
    assert {trigger_of(f"{text}7") for text in beginnings} == {*Trigger}


@given(minutes, minutes)
def test_different_minutes_never_share_a_key(some: datetime, other: datetime) -> None:
    assert (cron_key(some) == cron_key(other)) == (some == other)


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
