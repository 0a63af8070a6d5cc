import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.execution import State
from cronhare.domain.messages import (
    LARGEST_BODY,
    LARGEST_ID,
    AttemptRef,
    IncomingTask,
    Seal,
    TaskMessage,
    Unreadable,
    failed_body,
    headers_of,
    read,
    task_body,
)
from cronhare.domain.texts.moments import iso_ms
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


def test_a_task_message_is_the_same_on_every_attempt() -> None:
    third = msgspec.structs.replace(EXECUTION, attempt=3, deaths=2, state=State.RETRYING)

    assert task_body(third) == TASK_BODY


def test_params_are_json_text_inside_of_the_json() -> None:
    execution = msgspec.structs.replace(
        EXECUTION, params='{"controller":"RefreshUserToken","name":"Zoë"}'
    )

    body = json.loads(task_body(execution))

    assert json.loads(body["params_scheduler"]) == {
        "controller": "RefreshUserToken",
        "name": "Zoë",
    }


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


@pytest.mark.parametrize(
    ("microsecond", "text"), [(0, "000"), (999, "000"), (1_000, "001"), (999_999, "999")]
)
def test_milliseconds_are_cut_not_rounded(microsecond: int, text: str) -> None:
    moment = NOON.replace(microsecond=microsecond)

    assert iso_ms(moment) == f"2025-12-12T12:00:00.{text}Z"


def test_our_headers_tell_execution_attempt_deaths_and_key() -> None:
    headers = headers_of(msgspec.structs.replace(EXECUTION, attempt=3, deaths=2))

    assert headers == {
        "cron-execution-id": 17,
        "cron-attempt": 3,
        "cron-deaths": 2,
        "cron-execution-key": "cron-2025-12-12-12-0",
        "x-deduplication-header": "17:3",
    }


def test_what_we_write_we_read() -> None:
    execution = msgspec.structs.replace(EXECUTION, attempt=3, deaths=2)

    call = read(task_body(execution), headers_of(execution), Seal())

    assert call == IncomingTask(task=TASK, nacks={}, ticket=AttemptRef(execution_id=17, attempt=3))


def test_a_failed_message_that_is_republished_is_a_task_message() -> None:
    call = read(failed_body(EXECUTION, reason="x", at=NOON), {}, Seal())

    assert call == IncomingTask(task=TASK, nacks={}, ticket=None)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cron-execution-id": 17},
        {"cron-attempt": 1},
        {"cron-execution-id": "17", "cron-attempt": 1},
        {"cron-execution-id": 0, "cron-attempt": 1},
        {"cron-execution-id": 17, "cron-attempt": -1},
        {"cron-execution-id": True, "cron-attempt": 1},
        {"cron-execution-id": 17, "cron-attempt": True},
        {"cron-execution-id": LARGEST_ID + 1, "cron-attempt": 1},
    ],
)
def test_a_message_without_our_headers_has_no_ticket(headers: dict[str, object]) -> None:
    call = read(TASK_BODY, headers, Seal())

    assert call == IncomingTask(task=TASK, nacks={}, ticket=None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a task message"),
        (b"hello", "not a task message"),
        (b"[1, 2]", "not a task message"),
        (b"[" * 100_000, "not a task message"),
        (b"\xff\xfe", "not a task message"),
        (TASK_BODY.replace(b"...", b"\xff"), "not JSON"),
        (TASK_BODY.replace(b"...", rb"\ud800"), "not a task message"),
        (TASK_BODY.replace(b"25", b'"25"'), "Expected `int`, got `str` - at `$.id`"),
        (TASK_BODY.replace(b"25", b"true"), "Expected `int`, got `bool` - at `$.id`"),
        (TASK_BODY.replace(b"25", b"-1"), "Expected `int` >= 0 - at `$.id`"),
        (TASK_BODY.replace(b"16", b"9223372036854775808"), "at `$.scheduler_id`"),
        (TASK_BODY.replace(b'"{...}"', b"{}"), "at `$.params_scheduler`"),
        (b'{"type":"report","id":25,"scheduler_id":16}', "missing required field"),
        (b" " * (LARGEST_BODY + 1), "262145 bytes, 262144 are allowed"),
        (b" " * 17_000_000, "17000000 bytes"),
    ],
)
def test_a_message_that_cannot_be_understood_says_why(body: bytes, reason: str) -> None:
    answer = read(body, {}, Seal())

    assert isinstance(answer, Unreadable)
    assert reason in answer.reason


def test_fields_that_we_do_not_know_are_ignored() -> None:
    body = TASK_BODY.replace(b'}"}', b'}","delivered_by":{"x":1}}')

    assert read(body, {}, Seal()) == IncomingTask(task=TASK, nacks={}, ticket=None)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_body_ever_raises(body: bytes) -> None:
    assert isinstance(read(body, {}, Seal()), IncomingTask | Unreadable)
