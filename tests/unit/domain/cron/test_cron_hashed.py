"""`H` and its forms: as in Jenkins, with a hash of our own."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression, CronExpressionError, find_zone

UTC_ZONE = find_zone("UTC")

names = st.text(min_size=1, max_size=40)


def plain(text: str, name: str = "nightly") -> list[str]:
    return CronExpression.parse(text, name).plain.split()


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("nightly", "21 14 1 3 2"),
        ("daily-token-refresh", "56 5 26 8 6"),
        ("#16", "56 4 18 9 3"),
        ("ü", "9 16 11 9 3"),
    ],
)
def test_a_name_has_the_same_numbers_for_ever(name: str, numbers: str) -> None:
    """Schedules would move to other times with a release in which this fails."""
    assert plain("H H H H H", name) == numbers.split()


@given(names)
def test_each_number_is_one_of_its_field_and_of_each_month(name: str) -> None:
    minute, hour, day, month, week_day = map(int, plain("H H H H H", name))

    assert minute in range(60)
    assert hour in range(24)
    assert day in range(1, 29)
    assert month in range(1, 13)
    assert week_day in range(7)


@given(names, st.integers(0, 59), st.integers(0, 59), st.integers(1, 60))
def test_a_range_and_a_step_hold(name: str, one: int, other: int, step: int) -> None:
    first, last = sorted((one, other))
    width = last - first + 1

    value = int(plain(f"H({first}-{last}) * * * *", name)[0])
    stepped = CronExpression.parse(f"H({first}-{last})/{min(step, width)} 0 * * *", name)

    assert first <= value <= last
    noon = datetime(2026, 3, 2, tzinfo=UTC)
    day = [run.minute for run in _runs(stepped, noon) if run.day == noon.day]
    assert first <= day[0] < first + min(step, width)
    assert last - min(step, width) < day[-1] <= last
    assert {after - before for before, after in pairwise(day)} <= {step}


def _runs(expression: CronExpression, day: datetime) -> list[datetime]:
    found, run = list[datetime](), expression.next(day.replace(hour=0), UTC_ZONE)
    midnight = [day] if expression.matches(day, UTC_ZONE) else []
    while run is not None and run.day == day.day:
        found.append(run)
        run = expression.next(run, UTC_ZONE)
    return midnight + found


def test_names_spread_over_the_hour() -> None:
    minutes = [int(plain("H * * * *", f"job-{number}")[0]) for number in range(6_000)]

    assert all(60 < minutes.count(minute) < 145 for minute in range(60))


def test_a_hashed_item_stands_beside_others() -> None:
    minute, hour, *_ = plain("H(0-29),H(30-59),0 H/12 * * *")
    first, second, zero = map(int, minute.split(","))

    assert (first < 30 <= second, zero) == (True, 0)
    assert hour == "2-23/12"


def test_a_hashed_time_is_fixed_and_a_star_beside_it_is_a_wildcard() -> None:
    assert not CronExpression.parse("H/15 H * * *", "a").wildcard
    assert CronExpression.parse("H * * * *", "a").wildcard


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("H/0 * * * *", 'minute: the step in "h/0" is 0'),
        ("H/61 * * * *", 'minute: the step in "h/61" is larger than its range, 0-59'),
        ("* * H/29 * *", 'day of month: the step in "h/29" is larger than its range, 1-28'),
        ("H(50-70) * * * *", 'minute: 70 in "h(50-70)" is outside 0-59'),
        ("H(9-3) * * * *", 'minute: the range "h(9-3)" runs backwards'),
        ("H(5) * * * *", 'minute: "h(5)" is not understood (write H, H(a-b), H/n or H(a-b)/n)'),
        ("HH * * * *", 'minute: "hh" is not understood'),
        ("H(\uff10-5) * * * *", "expression: only ASCII"),
        ("* * HW * *", "day of month: "),
        ("* * * * H(MON-XYZ)", 'week day: "xyz" is not a week day'),
    ],
)
def test_a_bad_form_is_refused_with_what_is_allowed(text: str, fault: str) -> None:
    with pytest.raises(CronExpressionError) as refused:
        CronExpression.parse(text, "nightly")

    assert str(refused.value).startswith(fault)
