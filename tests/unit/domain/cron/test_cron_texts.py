"""What texts of cron mean, asked through the minutes that they match, and which are refused."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression, CronExpressionError, find_zone

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
        ("0", [0]),
        ("007", [7]),
        ("*/999999999999999999999", [0]),
        ("59/15", [59]),
        ("1-3,10-20/5,59", [1, 2, 3, 10, 15, 20, 59]),
    ],
)
def test_a_minute_field_means_these_minutes(text: str, minutes: list[int]) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("text", "week_days"),
    [
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("0", [0]),
        ("7", [0]),
        ("SAT-SUN", [0, 6]),
        ("sun-sun", [0]),
        ("sun-sat/3", [0, 3, 6]),
        ("7/2", [0, 2, 4, 6]),
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
        ("* * 1,1#2", [2, 9, 16, 23, 30]),
        ("1-31 * 1", list(range(1, 32))),
        ("13 * ?", [13]),
    ],
)
def test_either_day_field_is_enough_when_both_restrict(fields: str, days: list[int]) -> None:
    assert days_of(fields) == days


@pytest.mark.parametrize(
    ("fields", "month", "days"),
    [
        ("L * *", (2026, 2), [28]),
        ("l,15 * *", (2026, 4), [15, 30]),
        ("LW * *", (2026, 1), [30]),  # the 31st is a Saturday
        ("15W * *", (2026, 8), [14]),  # a Saturday gives way to the Friday
        ("15W * *", (2026, 3), [16]),  # a Sunday to the Monday
        ("1W * *", (2026, 8), [3]),  # Saturday the 1st stays in its month
        ("31W * *", (2026, 5), [29]),  # Sunday the 31st too
        ("31W * *", (2026, 4), []),
        ("* * fri#5", (2026, 3), []),
        ("* * SUN#5", (2026, 3), [29]),
        ("* * 5L", (2026, 3), [27]),
        ("* * tueL", (2026, 3), [31]),
        ("L * 1L", (2026, 3), [30, 31]),
    ],
)
def test_day_words_mean_these_days(fields: str, month: tuple[int, int], days: list[int]) -> None:
    assert days_of(fields, datetime(*month, 1, tzinfo=UTC)) == days


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@weekly", "0 0 * * 0"),
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
        ("0 */2 * * *", True),
        ("@hourly", True),
        ("0-59 0-23 * * *", False),
    ],
)
def test_a_star_in_minute_or_hour_makes_a_wildcard(text: str, wildcard: bool) -> None:
    assert CronExpression.parse(text).wildcard is wildcard


FORM = "write *, a, a-b, */s, a/s or a-b/s"
NAMELESS = "stands for a number that is made of the schedule's name, and there is none"
ZONE = "expression: a zone inside the text is not supported (set the schedule's timezone instead)"
SECONDS = (
    "expression: five fields expected, seconds are not supported"
    ' (remove the sixth field, or give the schedule every = "30s" instead)'
)
WEEK_DAY_FORM = "write dL or d#k, such as 5L or FRI#2; k is 1-5"

REFUSALS = [
    ("* 0-24 * * *", 'hour: 24 in "0-24" is outside 0-23'),
    ("", "expression: the text is empty (write * * * * * for every minute)"),
    ("0 * * * * *", SECONDS),
    (
        "@reboot",
        "expression: @reboot is not a time (write on_boot = true in the jobs file instead)",
    ),
    (
        "@Every 5m",
        'expression: @every is no cron text (give the schedule every = "5m" instead)',
    ),
    ("@dayly", 'expression: the alias "@dayly" is unknown (did you mean @daily?)'),
    ("@daily 5", "expression: nothing may follow @daily"),
    ("TZ=Europe/Berlin 0 8 * * *", ZONE),
    ("H * * * *", f'minute: "h" {NAMELESS}'),
    ("* 22-2 * * *", 'hour: the range "22-2" runs backwards (write 22-23,0-2)'),
    ("* * * * fri-mon", 'week day: the range "fri-mon" runs backwards (write 5-6,0-1)'),
    ("1.5 * * * *", f'minute: "1.5" is not understood ({FORM})'),
    ("*/0 * * * *", 'minute: the step in "*/0" is 0 (the least step is 1)'),
    ("1,,2 * * * *", "minute: an item of the list is empty (remove the extra comma)"),
    ("? * * * *", 'minute: "?" belongs to the day of month or the week day'),
    ("jan * * * *", 'minute: "jan" is not a number'),
    ("* * * july *", 'month: "july" is not a month (did you mean JUL?)'),
    ("* * * * L5", f'week day: "l5" is not understood ({WEEK_DAY_FORM})'),
    (
        "* * * * *\n",
        "expression: line breaks and control characters are not allowed",
    ),
    (
        "0 8 * * 1\u20135",
        "expression: only ASCII characters are allowed (look for pasted dashes or blanks)",
    ),
    ("*" * 257, "expression: the text has 257 characters, 256 are allowed"),
]


@pytest.mark.parametrize(("text", "message"), REFUSALS)
def test_a_bad_text_is_refused_with_its_reason_and_a_way_out(text: str, message: str) -> None:
    with pytest.raises(CronExpressionError) as caught:
        CronExpression.parse(text)

    assert str(caught.value) == message


def test_all_faults_of_all_fields_come_at_once() -> None:
    with pytest.raises(CronExpressionError) as caught:
        CronExpression.parse("60,61 24 32 foo 8#9")

    faults = caught.value.faults
    places = ["minute", "minute", "hour", "day of month", "month", "week day"]
    assert [fault.field for fault in faults] == places
    assert str(caught.value).startswith("minute: 60 is outside 0-59; minute: 61 is outside 0-59; ")


@pytest.mark.parametrize(
    "text", ["9" * 200 + " * * * *", "x" * 9999, "\u0663" * 99, "@" + "z" * 99]
)
def test_at_most_64_characters_of_the_input_are_echoed(text: str) -> None:
    with pytest.raises(CronExpressionError) as caught:
        CronExpression.parse(text)

    (fault,) = caught.value.faults
    assert len(str(fault)) < 200
    assert str(fault).isascii()


NEAR_CRON = st.text(alphabet="0123456789*/-,?#LWlwHR@ \tmonjaTZ=~.", max_size=40)
ANY_FIVE = st.lists(
    st.text(alphabet="0123456789*/-,?#lwhrfeb", min_size=1, max_size=12), min_size=5, max_size=5
).map(" ".join)


@given(st.one_of(st.text(max_size=300), NEAR_CRON, ANY_FIVE))
@example("1" * 250 + " * * * *")
@example("*/" + "9" * 240 + " * * * *")
@example(",".join(["1-2/3"] * 40) + " * * * *")
@example("@" + "y" * 255)
def test_no_text_ever_raises_anything_else_or_takes_long(text: str) -> None:
    outcome = parse_or_refuse(text)
    # What is slow is slow each time; the interpreter collects its garbage once in a while.
    assert any(seconds_of(text) < 0.2 for _ in range(5))
    if isinstance(outcome, CronExpression):
        assert CronExpression.parse(str(outcome)) == outcome
        assert outcome.fires is (outcome.why_never == "")
    else:
        assert all(fault.reason for fault in outcome.faults)


def seconds_of(text: str) -> float:
    began = time.thread_time()  # no other load makes it longer
    parse_or_refuse(text)
    return time.thread_time() - began


def parse_or_refuse(text: str) -> CronExpression | CronExpressionError:
    try:
        return CronExpression.parse(text)
    except CronExpressionError as error:
        return error


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
        ("H/61 * * * *", 'minute: the step in "h/61" is larger than its range, 0-59'),
        ("H(50-70) * * * *", 'minute: 70 in "h(50-70)" is outside 0-59'),
        ("H(5) * * * *", 'minute: "h(5)" is not understood (write H, H(a-b), H/n or H(a-b)/n)'),
        ("* * * * H(MON-XYZ)", 'week day: "xyz" is not a week day'),
    ],
)
def test_a_bad_form_is_refused_with_what_is_allowed(text: str, fault: str) -> None:
    with pytest.raises(CronExpressionError) as refused:
        CronExpression.parse(text, "nightly")

    assert str(refused.value).startswith(fault)
