from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.reading import Invalid
from cronhare.domain.retries.outcome import (
    LONGEST_RETRY_AFTER,
    CrashPolicy,
    Ending,
    ErrorClass,
    Outcome,
    TaskError,
    asked_wait,
    classified,
    read_error_rules,
    read_retry_after,
)
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import RetryAfter, decide

NOW = datetime(2025, 12, 12, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("value", [120, 120.0, "120", " 120 ", "120.0"])
def test_seconds_are_a_number_or_its_text(value: object) -> None:
    assert read_retry_after(value) == 120 * SECOND


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 12 Dec 2025 08:02:00 GMT",  # the three forms of RFC 9110, section 5.6.7
        "Friday, 12-Dec-25 08:02:00 GMT",
        "Fri Dec 12 08:02:00 2025",
    ],
)
def test_each_form_of_an_http_date_is_a_moment(text: str) -> None:
    assert read_retry_after(text) == NOW + 120 * SECOND


ODD: list[object] = [
    *(None, True, -1, "-1", "soon", "", "1e9", "١٢", float("nan"), float("inf"), 10**400),
    *("9" * 41, "Fri, 99 Dec 2025 08:02:00 GMT", [120], {"seconds": 120}, 10**10),
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_what_is_no_wait_is_none(value: object) -> None:
    assert read_retry_after(value) is None


@given(st.text(max_size=60))
def test_no_text_is_a_fault_of_ours(text: str) -> None:
    read_retry_after(text)


def limited(**asked: timedelta | datetime) -> TaskError:
    return TaskError(message="429", error_class=ErrorClass.RATE_LIMITED, **asked)  # type: ignore[arg-type]


def decided(asked: TaskError, chance: float) -> RetryAfter:
    verdict = decide(
        Outcome(ending=Ending.FAILED, error=asked),
        deaths=0,
        policy=RetryPolicy(),
        crash_policy=CrashPolicy(),
        crashes=(),
        now=NOW,
        random_fraction=chance,
    )
    assert isinstance(verdict, RetryAfter)
    return verdict


def test_what_is_asked_for_counts_from_now_and_the_later_wins() -> None:
    asked = limited(retry_after=60 * SECOND, retry_at=NOW + 90 * SECOND)

    assert asked_wait(asked, now=NOW) == 90 * SECOND
    assert asked_wait(asked, now=NOW + 60 * SECOND) == 60 * SECOND
    assert asked_wait(TaskError(message="no"), now=NOW) == timedelta(0)


@pytest.mark.parametrize("chance", [0.0, 0.99])
@pytest.mark.parametrize(
    "asked",
    [
        {"retry_after": read_retry_after(36_776_647)},
        {"retry_after": read_retry_after("9999999999")},
        {"retry_at": NOW + timedelta(days=425)},
        {"retry_after": timedelta(hours=23)},
    ],
)
def test_no_answer_of_a_server_stops_a_schedule_for_more_than_a_day(
    asked: dict[str, timedelta], chance: float
) -> None:
    verdict = decided(limited(**asked), chance)

    assert verdict.delay <= LONGEST_RETRY_AFTER == timedelta(hours=24)


def test_it_is_said_that_more_was_asked_for() -> None:
    verdict = decided(limited(retry_after=timedelta(days=425, microseconds=1)), 0.5)

    said = "it was asked to wait 425d, of which 24h count"
    assert (verdict.note, verdict.reason) == (said, f"retry 1/3: 429; {said}")
    assert decided(limited(retry_after=LONGEST_RETRY_AFTER), 0.5).note == "it was asked to wait 1d"


@given(
    st.timedeltas(timedelta(0), timedelta(hours=20)),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_a_retry_is_never_earlier_than_asked_and_at_most_a_fifth_later(
    wait: timedelta, chance: float, is_date: bool
) -> None:
    asked = limited(retry_at=NOW + wait) if is_date else limited(retry_after=wait)

    verdict = decided(asked, chance)

    assert max(30 * SECOND, wait) <= verdict.delay
    assert verdict.delay <= max(30 * SECOND, wait * 1.2 + timedelta(microseconds=1))


RULES = read_error_rules(
    {
        "transient": ["ECONNRESET", "exit:75", "AUTH_INVALID"],
        "permanent": ["KeyError", "exit:1", "LookupError"],
        "rate-limited": ["TooManyRequests"],
    }
)


def class_of(exit_code: int = 1, **error: object) -> ErrorClass:
    given_error = TaskError(message="no", **error)  # type: ignore[arg-type]
    outcome = Outcome(ending=Ending.FAILED, exit_code=exit_code, error=given_error)
    found = classified(outcome, RULES).error
    assert found is not None
    return found.error_class


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "ECONNRESET"}, ErrorClass.TRANSIENT),
        ({"types": ("KeyError", "LookupError")}, ErrorClass.PERMANENT),
        ({"types": ("IndexError", "LookupError")}, ErrorClass.PERMANENT),
        ({"types": ("TooManyRequests", "HTTPError")}, ErrorClass.RATE_LIMITED),
        ({"exit_code": 75}, ErrorClass.TRANSIENT),
        ({"exit_code": 3}, ErrorClass.UNKNOWN),
        ({"exit_code": 3, "types": ("OSError",), "code": "EIO"}, ErrorClass.UNKNOWN),
        ({"code": "ECONNRESET", "types": ("KeyError",)}, ErrorClass.TRANSIENT),  # the nearest
        ({"code": "AUTH_INVALID", "error_class": ErrorClass.PERMANENT}, ErrorClass.TRANSIENT),
        ({"error_class": ErrorClass.RATE_LIMITED}, ErrorClass.RATE_LIMITED),  # above an exit status
    ],
)
def test_an_error_is_known_by_code_exception_or_exit_status(
    error: dict[str, object], expected: ErrorClass
) -> None:
    assert class_of(**error) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (3, "a table is expected, with transient, permanent, rate-limited"),
        ({"fatal": []}, "'fatal' is no class of errors; there are transient, permanent"),
        ({"transient": "ECONNRESET"}, "transient: a list of at most 100 texts is expected"),
        ({"transient": [75]}, "transient: 75 is not a code such as"),
        ({"transient": ["no such"]}, "'no such' is not a code such as"),
        ({"transient": ["exit:0"]}, "'exit:0' is not a code such as"),
        ({"transient": ["E"], "permanent": ["E"]}, "permanent: 'E' is transient already"),
    ],
)
def test_a_table_that_cannot_be_says_what_is_wrong(table: object, fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_error_rules(table)

    (only,) = refused.value.faults
    assert fault in str(only)
