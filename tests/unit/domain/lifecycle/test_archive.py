from collections.abc import Iterable
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.execution import REPLAYABLE, STARTABLE, State
from cronhare.domain.lifecycle.archive import (
    LARGEST_FAILED,
    Failure,
    FailureFilter,
    Unproven,
    read_failed,
)
from cronhare.domain.messages import AttemptRef, Signer, Unreadable
from cronhare.domain.reading import Invalid
from tests.unit.executions import NOON, execution

BODY = (
    b'{"type":"report","id":25,"scheduler_id":16,"params_scheduler":"{}",'
    b'"failed_at":"2025-12-12T12:03:39.002Z","failed_reason":"Connection timeout","retry_count":3}'
)
OURS: dict[str, object] = {"cron-execution-id": 17, "cron-attempt": 4}


def read(body: bytes, headers: dict[str, object] | None = None) -> Failure:
    failure = read_failed(body, headers or {}, Signer())
    assert isinstance(failure, Failure), failure
    return failure


def test_the_original_failed_message_is_understood() -> None:
    failure = read(BODY)

    assert failure.message.failed_reason == "Connection timeout"
    assert failure.message.retry_count == 3
    assert failure.failed_at == datetime(2025, 12, 12, 12, 3, 39, 2_000, tzinfo=UTC)
    assert failure.ticket is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-12-12T12:03:39", datetime(2025, 12, 12, 12, 3, 39, tzinfo=UTC)),
        ("2025-12-12T14:03:39+02:00", datetime(2025, 12, 12, 12, 3, 39, tzinfo=UTC)),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_the_time_is_read_where_it_can_be(text: str, moment: datetime | None) -> None:
    failure = read(BODY.replace(b"2025-12-12T12:03:39.002Z", text.encode()))

    assert failure.failed_at == moment


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"hello", "not a failed message"),
        (BODY.replace(b"25", b"-1"), "at `$.id`"),
        (BODY.replace(b":16", b":9223372036854775808"), "at `$.scheduler_id`"),
        (BODY.replace(b":3}", b":1000000}"), "at `$.retry_count`"),
        (BODY.replace(b"report", b"r" * 33), "length <= 32 - at `$.type`"),
        (BODY.replace(b"Connection", rb"\ud800"), "not a failed message"),
        (b" " * (LARGEST_FAILED + 1), "1048577 bytes, 1048576 are allowed"),
    ],
)
def test_what_the_ledger_could_not_keep_is_not_understood(body: bytes, reason: str) -> None:
    answer = read_failed(body, {}, Signer())

    assert isinstance(answer, Unreadable)
    assert reason in answer.reason


def test_a_task_of_the_systems_own_is_told_by_nobody_else() -> None:
    answer = read_failed(BODY.replace(b"report", b"system"), {}, Signer())

    assert isinstance(answer, Unreadable)
    assert "our own" in answer.reason


def test_with_a_key_our_headers_need_our_signature() -> None:
    signer = Signer(("k" * 32,))
    task = read(BODY).message.task_body()

    assert isinstance(read_failed(BODY, OURS, signer), Unreadable)
    assert isinstance(read_failed(BODY, {}, signer), Failure)
    proven = read_failed(BODY, signer.sign(task, OURS), signer)
    assert isinstance(proven, Failure)
    assert proven.proven


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_body_ever_raises(body: bytes) -> None:
    assert isinstance(read_failed(body, {}, Signer()), Failure | Unreadable)


ANY = list(State)
ENDS = "ends"


@pytest.mark.parametrize(
    ("states", "ahead", "proven", "is_archived", "said"),
    [
        ([State.HANDED_OVER], 0, False, False, ENDS),
        (STARTABLE, 0, True, False, ENDS),
        (STARTABLE, 0, False, False, Unproven),
        (REPLAYABLE, 0, False, False, None),
        ([State.RUNNING, State.SUCCEEDED, State.HELD], 0, True, False, Unproven),
        (ANY, -1, True, False, Unproven),
        (ANY, 1, True, False, Unproven),
        (ANY, -1, False, True, None),  # it has failed with that attempt before
    ],
)
def test_a_message_ends_what_waits_for_that_attempt_if_that_is_proven(
    states: Iterable[State], ahead: int, proven: bool, is_archived: bool, said: object
) -> None:
    for state in states:
        one = execution(state, scheduler_id=16, attempt=2)
        ticket = AttemptRef(execution_id=one.id, attempt=2 + ahead)
        failure = attrs.evolve(read(BODY), ticket=ticket, proven=proven)

        answer = failure.judge(one, is_archived=lambda: is_archived)

        assert answer == {ENDS: one, Unproven: Unproven(ticket, state), None: None}[said]


def test_of_no_execution_or_one_of_another_schedule_only_what_is_archived_is_known() -> None:
    ticket = AttemptRef(execution_id=1, attempt=1)
    failure = attrs.evolve(read(BODY), ticket=ticket, proven=True)

    for one in (None, execution(scheduler_id=17)):
        assert failure.judge(one, is_archived=lambda: False) == Unproven(ticket, None)
        assert failure.judge(one, is_archived=lambda: True) is None


def test_a_filter_that_no_row_can_meet_is_refused_with_all_its_faults() -> None:
    with pytest.raises(Invalid) as refused:
        FailureFilter(
            schedule="",
            task="a\0b",
            reason="x" * 1_001,
            code="\udcff",
            kind=State.RUNNING,
            since=NOON,
            until=NOON,
        )

    assert [each.field for each in refused.value.faults] == [
        "schedule",
        "task",
        "code",
        "reason",
        "kind",
        "until",
    ]
