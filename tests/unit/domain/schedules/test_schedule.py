from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from cronhare.domain.cron import CronExpression
from cronhare.domain.schedules.schedule import ByHand, Once, Recurring, Schedule
from cronhare.domain.schedules.task import TaskRef

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOURLY = Recurring(CronExpression.parse("0 * * * *"), ZoneInfo("UTC"))


def schedule(timing: Recurring | Once | ByHand = HOURLY, **changes: Any) -> Schedule:  # noqa: ANN401
    plain = Schedule(
        id=16, name="report", task=TaskRef("report", 25), timing=timing, changed_at=NOON
    )
    return msgspec.structs.replace(plain, **changes)


def at(hour: int, minute: int = 0) -> datetime:
    return NOON.replace(hour=hour, minute=minute)


def test_a_recurring_schedule_is_due_by_the_clocks_of_its_zone() -> None:
    daily = Recurring(CronExpression.parse("0 8 * * *"), ZoneInfo("Europe/Berlin"))

    assert daily.next(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 29, 6, tzinfo=UTC)


def test_a_one_off_is_due_at_its_minute_in_utc() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    once = Once(datetime(2025, 12, 15, 16, 0, 59, 9, tzinfo=berlin))

    assert once.at == datetime(2025, 12, 15, 15, 0, tzinfo=UTC)
    assert once.key(once.at) == "once-2025-12-15-15-0"


def test_a_one_off_is_due_once() -> None:
    once = Once(NOON)

    assert [once.next(NOON - MINUTE), once.next(NOON)] == [NOON, None]
    assert [once.previous(NOON + MINUTE), once.previous(NOON)] == [NOON, None]


def test_a_schedule_by_hand_is_never_due() -> None:
    by_hand = ByHand()

    assert (by_hand.next(NOON), by_hand.previous(NOON)) == (None, None)


def test_a_disabled_schedule_is_never_due() -> None:
    assert schedule(enabled=False).next(NOON) is None


@pytest.mark.parametrize(
    ("starts_at", "expected"),
    [
        (at(15) - MINUTE, at(15)),
        (at(15), at(15)),
        (at(15) + timedelta(microseconds=1), at(16)),
        (at(3), at(13)),
    ],
)
def test_a_schedule_is_first_due_at_or_after_its_start(
    starts_at: datetime, expected: datetime
) -> None:
    assert schedule(starts_at=starts_at).next(at(12)) == expected


@pytest.mark.parametrize(
    ("ends_at", "expected"),
    [(at(13), at(13)), (at(13) - timedelta(microseconds=1), None), (at(3), None)],
)
def test_a_schedule_is_last_due_at_or_before_its_end(
    ends_at: datetime, expected: datetime | None
) -> None:
    assert schedule(ends_at=ends_at).next(at(12)) == expected
