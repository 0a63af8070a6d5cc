"""What a text means, asked through the minutes that it matches in UTC."""

from datetime import UTC, datetime, timedelta

import pytest

from cronhare.domain.cron import CronExpression, find_zone

UTC_ZONE = find_zone("UTC")
SUNDAY = datetime(2026, 3, 1, tzinfo=UTC)  # the first of a month that begins with its week


def minutes_of(text: str) -> list[int]:
    expression = CronExpression.parse(f"{text} * * * *")
    return [m for m in range(60) if expression.matches(SUNDAY + timedelta(minutes=m), UTC_ZONE)]


def days_of(text: str, month_start: datetime = SUNDAY) -> list[int]:
    expression = CronExpression.parse(f"0 0 {text}")
    days = [month_start + timedelta(days=d) for d in range(31)]
    return [
        day.day
        for day in days
        if day.month == month_start.month and expression.matches(day, UTC_ZONE)
    ]


def week_days_of(text: str) -> list[int]:
    expression = CronExpression.parse(f"0 0 * * {text}")
    return [d for d in range(7) if expression.matches(SUNDAY + timedelta(days=d), UTC_ZONE)]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("*", list(range(60))),
        ("0-59", list(range(60))),
        ("0", [0]),
        ("007", [7]),
        ("5-5", [5]),
        ("58-59", [58, 59]),
        ("*/20", [0, 20, 40]),
        ("*/59", [0, 59]),
        ("*/60", [0]),
        ("*/999999999999999999999", [0]),
        ("5/20", [5, 25, 45]),
        ("59/15", [59]),
        ("10-30/10", [10, 20, 30]),
        ("10-29/10", [10, 20]),
        ("3,1,2,1", [1, 2, 3]),
        ("1-3,10-20/5,59", [1, 2, 3, 10, 15, 20, 59]),
    ],
)
def test_a_minute_field_means_these_minutes(text: str, minutes: list[int]) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("text", "week_days"),
    [
        ("*", [0, 1, 2, 3, 4, 5, 6]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("0", [0]),
        ("7", [0]),
        ("7-7", [0]),
        ("SUN", [0]),
        ("sat", [6]),
        ("mon-FRI", [1, 2, 3, 4, 5]),
        ("5-7", [0, 5, 6]),
        ("5-7/2", [0, 5]),
        ("SAT-SUN", [0, 6]),
        ("mon-sun", [0, 1, 2, 3, 4, 5, 6]),
        ("sun-sun", [0]),
        ("7-sun", [0]),
        ("sun-sat/3", [0, 3, 6]),
        ("5/2", [5]),
        ("4/2", [4, 6]),
        ("7/2", [0, 2, 4, 6]),
        ("*/3", [0, 3, 6]),
        ("?", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_week_day_field_means_these_days(text: str, week_days: list[int]) -> None:
    assert week_days_of(text) == week_days


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ("13 * 1", [2, 9, 13, 16, 23, 30]),
        ("*/10 * 1", [1, 2, 9, 11, 16, 21, 23, 30, 31]),
        ("1 * 1#2", [1, 9]),
        ("13 * FRI#2", [13]),
        ("* * 1,1#2", [2, 9, 16, 23, 30]),
        ("* * 3,1#2", [4, 9, 11, 18, 25]),
        ("1-31 * 1", list(range(1, 32))),
        ("* * 1", [2, 9, 16, 23, 30]),
        ("? * 1", [2, 9, 16, 23, 30]),
        ("13 * ?", [13]),
    ],
)
def test_either_day_field_is_enough_when_both_restrict(fields: str, days: list[int]) -> None:
    assert days_of(fields) == days


@pytest.mark.parametrize(
    ("fields", "month", "days"),
    [
        ("L * *", (2026, 2), [28]),
        ("L * *", (2028, 2), [29]),
        ("l,15 * *", (2026, 4), [15, 30]),
        ("LW * *", (2026, 1), [30]),  # the 31st is a Saturday
        ("LW * *", (2026, 5), [29]),  # the 31st is a Sunday
        ("lw * *", (2026, 3), [31]),
        ("15W * *", (2026, 8), [14]),  # a Saturday gives way to the Friday
        ("15W * *", (2026, 3), [16]),  # a Sunday to the Monday
        ("15w * *", (2026, 4), [15]),
        ("1W * *", (2026, 8), [3]),  # Saturday the 1st stays in its month
        ("31W * *", (2026, 5), [29]),  # Sunday the 31st too
        ("30W * *", (2026, 5), [29]),
        ("31W * *", (2026, 4), []),
        ("29W * *", (2026, 2), []),
        ("29W * *", (2028, 2), [29]),
        ("* * 5#2", (2026, 3), [13]),
        ("* * fri#5", (2026, 3), []),
        ("* * SUN#5", (2026, 3), [29]),
        ("* * 7#1", (2026, 3), [1]),
        ("* * 5L", (2026, 3), [27]),
        ("* * tueL", (2026, 3), [31]),
        ("* * 7l", (2026, 3), [29]),
        ("L * 1L", (2026, 3), [30, 31]),
    ],
)
def test_day_words_mean_these_days(fields: str, month: tuple[int, int], days: list[int]) -> None:
    assert days_of(fields, datetime(*month, 1, tzinfo=UTC)) == days


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@MidNight", "0 0 * * *"),
        (" @hourly\t", "0 * * * *"),
    ],
)
def test_an_alias_runs_when_its_fields_run(alias: str, fields: str) -> None:
    named = CronExpression.parse(alias).upcoming(SUNDAY, UTC_ZONE)
    spelt = CronExpression.parse(fields).upcoming(SUNDAY, UTC_ZONE)

    assert [next(named) for _ in range(5)] == [next(spelt) for _ in range(5)]


@pytest.mark.parametrize(
    ("text", "wildcard"),
    [
        ("* * * * *", True),
        ("*/5 1 * * *", True),
        ("0 */2 * * *", True),
        ("*,5 1 * * *", True),
        ("@hourly", True),
        ("@daily", False),
        ("0-59 0-23 * * *", False),
        ("5/1 1 * * *", False),
    ],
)
def test_a_star_in_minute_or_hour_makes_a_wildcard(text: str, wildcard: bool) -> None:
    assert CronExpression.parse(text).wildcard is wildcard
