from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.messages import (
    LARGEST_BODY,
    LARGEST_HEADERS,
    LARGEST_ID,
    MOST_HEADERS,
    MOST_NACKS,
    Nacks,
    Signer,
    TaskMessage,
    Unreadable,
    failed_body,
    headers_of,
    kept_headers,
    nacks_of,
    read,
    task_body,
    ticket_of,
)
from tests.unit.executions import execution

MAIN = "cron_scheduler"
NOON = datetime(2025, 12, 12, 12, 0, tzinfo=UTC)

EXECUTION = execution(
    id=17,
    scheduler_id=16,
    key="cron-2025-12-12-12-0",
    params="{...}",
    due_at=NOON,
    executed_at=NOON,
    container_id="host:1",
)
TASK_BODY = b'{"type":"report","id":25,"scheduler_id":16,"params_scheduler":"{...}"}'
TASK = TaskMessage(type="report", id=25, scheduler_id=16, params_scheduler="{...}")


def test_a_task_message_is_the_original_byte_for_byte() -> None:
    assert task_body(EXECUTION) == TASK_BODY


@pytest.mark.parametrize("reason", ["Connection timeout", "Connection timeout after 30s"])
def test_a_failed_message_is_the_original_byte_for_byte(reason: str) -> None:
    failed_at = datetime(2025, 12, 12, 12, 3, 39, 2_000, tzinfo=UTC)
    execution = msgspec.structs.replace(EXECUTION, deaths=3)

    body = failed_body(execution, reason=reason, at=failed_at)

    assert body == (
        b'{"type":"report","id":25,"scheduler_id":16,"params_scheduler":"{...}",'
        b'"failed_at":"2025-12-12T12:03:39.002Z","failed_reason":"%b","retry_count":3}'
        % reason.encode()
    )


def test_our_headers_tell_execution_attempt_deaths_and_key() -> None:
    headers = headers_of(msgspec.structs.replace(EXECUTION, attempt=3, deaths=2))

    assert headers == {
        "cron-execution-id": 17,
        "cron-attempt": 3,
        "cron-deaths": 2,
        "cron-execution-key": "cron-2025-12-12-12-0",
        "x-deduplication-header": "17:3",
    }


def test_a_failed_message_that_is_republished_is_a_task_message() -> None:
    call = read(failed_body(EXECUTION, reason="x", at=NOON), {}, Signer())

    assert call == TASK


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cron-execution-id": 17},
        {"cron-execution-id": "17", "cron-attempt": 1},
        {"cron-execution-id": 0, "cron-attempt": 1},
        {"cron-execution-id": True, "cron-attempt": 1},
        {"cron-execution-id": LARGEST_ID + 1, "cron-attempt": 1},
    ],
)
def test_a_message_without_our_headers_has_no_ticket(headers: dict[str, object]) -> None:
    assert ticket_of(headers) is None
    assert read(TASK_BODY, headers, Signer()) == TASK


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a task message"),
        (TASK_BODY.replace(b"...", b"\xff"), "not JSON"),
        (TASK_BODY.replace(b"25", b'"25"'), "Expected `int`, got `str` - at `$.id`"),
        (TASK_BODY.replace(b"16", b"9223372036854775808"), "at `$.scheduler_id`"),
        (b'{"type":"report","id":25,"scheduler_id":16}', "missing required field"),
        (TASK_BODY.replace(b"...", b"x" * 102_400), "102402 bytes of JSON, 102400 are allowed"),
        (TASK_BODY.replace(b"report", b"system"), "tasks of the type system are our own"),
        (b" " * (LARGEST_BODY + 1), "262145 bytes, 262144 are allowed"),
    ],
)
def test_a_message_that_cannot_be_understood_says_why(body: bytes, reason: str) -> None:
    answer = read(body, {}, Signer())

    assert isinstance(answer, Unreadable)
    assert reason in answer.reason


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_body_ever_raises(body: bytes) -> None:
    assert isinstance(read(body, {}, Signer()), TaskMessage | Unreadable)


MONDAY = datetime(2026, 3, 2, 12, tzinfo=UTC)
RETRY = "cron_scheduler_retry"


def as_the_original_says(count: int) -> dict[str, Any]:
    """Write the entry of S0.4 in docs/compatibility.md, as a foreign publisher may send it."""
    return {
        "count": count,
        "reason": "rejected",
        "queue": MAIN,
        "time": "2025-12-12T12:01:33.000Z",
        "exchange": "cron_dlx",
        "routing-keys": ["retry"],
        "original-expiration": None,
    }


def as_the_broker_writes(trips: int) -> list[dict[str, Any]]:
    """What counts of RabbitMQ's entries after so many trips through the retry queue."""
    return [
        {"queue": RETRY, "reason": "expired", "count": trips},
        {"queue": MAIN, "reason": "rejected", "count": trips},
    ]


LANES = [{"queue": f"{RETRY}.{k:02}", "reason": "expired", "count": 1} for k in range(16)]
REPORTS = {"queue": "cron_scheduler.reports", "reason": "rejected", "count": 1}
NO_COUNTS: list[Any] = [None, "2", 1.5, -1, True, [], {}]
ODD: list[Any] = [
    *("text", 3, {"count": 2}, [None], ["text"], [[]], [{}]),
    *([{**REPORTS, "count": count}] for count in NO_COUNTS),
]


@pytest.mark.parametrize(
    ("x_death", "nacks"),
    [
        (None, {}),
        ([], {}),
        ([as_the_original_says(2)], {MAIN: 2}),
        (as_the_broker_writes(3), {MAIN: 3}),
        (LANES, {}),
        ([REPORTS, *as_the_broker_writes(2)], {"cron_scheduler.reports": 1, MAIN: 2}),
        ([as_the_original_says(2**63)] * 2, {MAIN: MOST_NACKS}),
        *((odd, {}) for odd in ODD),
    ],
)
def test_the_brokers_header_is_counted_by_its_rejections(
    x_death: object, nacks: dict[str, int]
) -> None:
    found = nacks_of({"x-death": x_death, "cron-deaths": 1_000_000})

    assert {queue: count for queue, count in found.items() if count} == nacks


@pytest.mark.parametrize(
    ("seconds", "believed"), [(-60, 0), (0, 0), (14, 0), (15, 1), (44, 1), (45, 2), (10**6, 9)]
)
def test_nacks_are_believed_as_far_as_there_was_time_for_them(seconds: int, believed: int) -> None:
    nacks = Nacks(by_queue={MAIN: 9}, trip=timedelta(seconds=30))

    assert nacks.since(MONDAY, queue=MAIN, now=MONDAY + timedelta(seconds=seconds)) == believed


X_DEATH = {"queue": "q", "count": 2, "time": datetime(2026, 3, 2, tzinfo=UTC), "keys": ["q"]}


def test_what_is_small_and_plain_goes_on() -> None:
    headers = {"text": "Köln", "none": None, "no": False, "least": -(2**63), "x-death": [X_DEATH]}

    assert kept_headers(headers) == headers


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, 1e300, b"raw", object(), [object()], {"in": b"raw"}, [[[[["deep"]]]]]],
)
def test_what_might_not_be_written_is_left_out(value: object) -> None:
    assert kept_headers({"odd": value, "trace": "abc"}) == {"trace": "abc"}


def test_the_number_and_the_bytes_are_bounded() -> None:
    many = kept_headers({f"h{n}": n for n in range(1_000)})
    large = kept_headers({f"h{n}": "x" * 1_000 for n in range(1_000)})

    assert len(many) == MOST_HEADERS
    assert 7_000 < sum(len(str(value)) for value in large.values()) <= LARGEST_HEADERS
