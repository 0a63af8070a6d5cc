"""Starts per minute of a day, and how they could be spread."""

from datetime import UTC, datetime, timedelta

import pytest

from cronhare.application.reports.load import DayLoad, Maker, day_load
from cronhare.domain.cron import CronExpression, find_zone
from cronhare.domain.schedules.schedule import Every, Recurring
from cronhare.ports.schedules import SameTiming, Timings

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def cron(
    text: str, number: int = 1, zone: str = "UTC", hashed: str | None = None, jitter: int = 0
) -> SameTiming:
    timing = Recurring(CronExpression.parse(text), find_zone(zone))
    spread = timedelta(minutes=jitter)
    return SameTiming(number=number, timing=timing, hashed=hashed, jitter=spread)


def of(*groups: SameTiming, begin: datetime = MONDAY) -> DayLoad:
    return day_load(Timings(groups=groups), begin)


def test_a_minute_counts_what_is_due_in_it() -> None:
    found = of(cron("0 8 * * *", 3), cron("30 8 * * *", 2)).as_it_is

    assert (found.minutes[8 * 60], found.minutes[8 * 60 + 30]) == (3, 2)
    assert found.total == 5
    assert (found.peak, found.peak_at) == (3, MONDAY + timedelta(hours=8))


@pytest.mark.parametrize(("seconds", "minute", "total"), [(1, 60, 86_400), (90, 1, 960)])
def test_intervals_count_as_often_as_they_come(seconds: int, minute: int, total: int) -> None:
    every = SameTiming(number=1, timing=Every(timedelta(seconds=seconds)))

    found = of(every).as_it_is

    assert (found.peak, found.total) == (minute, total)


def test_a_schedule_is_due_within_its_bounds_alone() -> None:
    hourly = SameTiming(
        number=1,
        timing=Recurring(CronExpression.parse("@hourly"), find_zone("UTC")),
        starts_at=MONDAY + timedelta(hours=1, seconds=1),
        ends_at=MONDAY + timedelta(hours=4),
    )

    found = of(hourly).as_it_is

    assert [at // 60 for at, number in enumerate(found.minutes) if number] == [2, 3, 4]


def test_jitter_spreads_evenly_also_from_the_day_before() -> None:
    found = of(cron("55 23 * * *", 10, jitter=10)).as_it_is

    assert found.minutes[:6] == [1, 1, 1, 1, 1, 0]
    assert found.minutes[-5:] == [1] * 5


def test_h_spreads_over_the_hour_what_names_its_minute() -> None:
    found = of(cron("59 8 * * *", 60), cron("*/30 9 * * *", 7)).hashed

    assert found.minutes[479:541] == [0, *[pytest.approx(1)] * 60, 7]
    assert found.minutes[570] == 7


def test_the_herd_is_what_begins_on_the_hour() -> None:
    found = of(cron("0 * * * *", 3), cron("30 * * * *", 1)).as_it_is

    assert found.on_the_hour == pytest.approx(0.75)
    assert found.of_hour[30] == 24


def test_the_texts_that_make_the_busiest_minute_are_named() -> None:
    found = of(cron("0 8 * * *", 3), cron("0 8 * * MON", 5), cron("1 8 * * *", 7))

    assert found.makers == [
        Maker(text="0 8 * * MON UTC", schedules=5),
        Maker(text="0 8 * * * UTC", schedules=3),
    ]
