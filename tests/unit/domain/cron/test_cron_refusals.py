import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cronhare.domain.cron import CronExpression, CronExpressionError

FORM = "write *, a, a-b, */s, a/s or a-b/s"
NAMELESS = "stands for a number that is made of the schedule's name, and there is none"
ZONE = "expression: a zone inside the text is not supported (set the schedule's timezone instead)"
SECONDS = (
    "expression: five fields expected, seconds are not supported"
    ' (remove the sixth field, or give the schedule every = "30s" instead)'
)
MONTH_DAY_FORM = "write L, LW, or 1W to 31W"
WEEK_DAY_FORM = "write dL or d#k, such as 5L or FRI#2; k is 1-5"

REFUSALS = [
    ("* 24 * * *", "hour: 24 is outside 0-23"),
    ("* 0-24 * * *", 'hour: 24 in "0-24" is outside 0-23'),
    ("60 * * * *", "minute: 60 is outside 0-59"),
    ("* * * * 8", "week day: 8 is outside 0-7"),
    ("", "expression: the text is empty (write * * * * * for every minute)"),
    ("* * * *", "expression: five fields expected, found 4"),
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
    ("@", 'expression: the alias "@" is unknown'),
    ("@daily 5", "expression: nothing may follow @daily"),
    ("TZ=Europe/Berlin 0 8 * * *", ZONE),
    ("H * * * *", f'minute: "h" {NAMELESS}'),
    ("H(0-29)/10 * * * *", f'minute: "h(0-29)/10" {NAMELESS}'),
    ("* 22-2 * * *", 'hour: the range "22-2" runs backwards (write 22-23,0-2)'),
    ("* * * * fri-mon", 'week day: the range "fri-mon" runs backwards (write 5-6,0-1)'),
    ("* * * * 5-0", 'week day: the range "5-0" runs backwards (write 5-7: 7 is Sunday too)'),
    ("1.5 * * * *", f'minute: "1.5" is not understood ({FORM})'),
    ("*5 * * * *", f'minute: "*5" is not understood ({FORM})'),
    ("* * 1-L * *", f'day of month: "1-l" is not understood ({FORM})'),
    ("*/0 * * * *", 'minute: the step in "*/0" is 0 (the least step is 1)'),
    ("1,,2 * * * *", "minute: an item of the list is empty (remove the extra comma)"),
    ("? * * * *", 'minute: "?" belongs to the day of month or the week day'),
    ("* * ?,5 * *", 'day of month: "?" is not understood (write ? alone, or *)'),
    ("jan * * * *", 'minute: "jan" is not a number'),
    ("* * * july *", 'month: "july" is not a month (did you mean JUL?)'),
    ("* * * * monday", 'week day: "monday" is not a week day (did you mean MON?)'),
    ("L * * * *", 'minute: "l" belongs to the day of month'),
    ("* * * * L", 'week day: "l" belongs to the day of month'),
    ("* * * * L5", f'week day: "l5" is not understood ({WEEK_DAY_FORM})'),
    ("* * L-3 * *", f'day of month: "l-3" is not understood ({MONTH_DAY_FORM})'),
    ("* * 32W * *", 'day of month: 32 in "32w" is outside 1-31'),
    ("* * 2#1 * *", 'day of month: "2#1" belongs to the week day'),
    ("* * * * 8#1", 'week day: 8 in "8#1" is outside 0-7'),
    ("* * * * 5#6", f'week day: "5#6" is not understood ({WEEK_DAY_FORM})'),
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
