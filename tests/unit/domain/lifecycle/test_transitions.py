"""Which state follows which, who may start, and which failures of others are believed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.execution import REPLAYABLE, STARTABLE, UNFINISHED, WAITING, Execution, State
from cronhare.domain.lifecycle.archive import (
    LARGEST_FAILED,
    Failure,
    FailureFilter,
    Unproven,
    read_failed,
)
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.lifecycle.transitions import (
    EARLIEST,
    cancel,
    publish,
    start,
)
from cronhare.domain.messages import AttemptRef, Nacks, Signer, Unreadable
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.task import SYSTEM, TaskRef
from tests.unit.executions import NOON, execution

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("state", State)
def test_only_what_waits_for_its_message_is_changed_by_a_publish(state: State) -> None:
    sent = execution(state)

    assert (publish(sent, now=NOON) != sent) == (state in STARTABLE)


@pytest.mark.parametrize("state", State)
def test_only_what_has_not_ended_or_may_be_replayed_is_changed_by_a_cancel(state: State) -> None:
    asked = execution(state)

    after = cancel(asked, now=NOON)

    assert (after != asked) == after.cancel_requested == (state in UNFINISHED | REPLAYABLE)
    assert after.state is (State.CANCELLED if state in WAITING else state)


SECOND = timedelta(seconds=1)
UNTIL = NOON + MINUTE
NO_NACKS = Nacks(by_queue={}, trip=MINUTE)


def started(
    asked: Execution,
    *,
    attempt: int = 1,
    nacks: Nacks | None = NO_NACKS,
    node: str = "ant",
    now: datetime = NOON,
) -> Execution | str:
    return start(asked, attempt=attempt, nacks=nacks, node=node, now=now, until=UNTIL)


@pytest.mark.parametrize(
    ("asked", "nacks", "why"),
    [
        (execution(problem="no number"), NO_NACKS, "its row is broken: no number"),
        (execution(task=TaskRef(SYSTEM, 1)), NO_NACKS, "it is the system's own, which no message"),
        (execution(attempt=2), NO_NACKS, "attempt 2 is due, not 1"),
        (execution(State.RUNNING, owner="ant", attempt=2), NO_NACKS, "attempt 2 is due, not 1"),
        (execution(cancel_requested=True), NO_NACKS, "its end was asked for"),
    ],
)
def test_what_may_not_start_is_told_why(asked: Execution, nacks: Nacks | None, why: str) -> None:
    answer = started(asked, nacks=nacks)

    assert isinstance(answer, str)
    assert answer.startswith(why)


@pytest.mark.parametrize(
    ("begins", "known", "may"),
    [
        (None, {}, True),
        (NOON + EARLIEST, {}, True),
        (NOON + EARLIEST + SECOND, {}, False),
        (NOON + EARLIEST + SECOND, {"executed_at": NOON + SECOND}, True),  # a clock set back
        (NOON + EARLIEST + SECOND, {"started_at": NOON}, False),
        (NOON + EARLIEST + SECOND, {"started_at": NOON + SECOND}, True),
        (
            NOON + EARLIEST + SECOND,
            {"executed_at": NOON + SECOND, "started_at": NOON - SECOND},
            False,
        ),
    ],
)
def test_no_message_starts_an_attempt_early(
    begins: datetime | None, known: dict[str, datetime], may: bool
) -> None:
    asked = execution(
        State.RETRYING, next_attempt_at=begins, **{"executed_at": NOON - MINUTE, **known}
    )

    answer = started(asked)

    assert isinstance(answer, Execution) == may
    assert may or answer == "attempt 1 waits until 2026-03-02 12:00:06Z"


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
        (BODY.replace(b":3}", b":1000000}"), "at `$.retry_count`"),
        (BODY.replace(b"report", b"r" * 33), "length <= 32 - at `$.type`"),
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


def test_a_schedule_says_what_a_poison_pill_is_before_the_settings_do() -> None:
    settings, own = CrashPolicy(limit=5), CrashPolicy(limit=2)
    policies = RetryPolicies(RetryPolicy(), crashes=settings)

    assert policies.crashes_of(execution(retry=RetryPolicy(crashes=own))) == own
    assert policies.crashes_of(execution(retry=RetryPolicy())) == settings
    assert policies.crashes_of(execution()) == settings
