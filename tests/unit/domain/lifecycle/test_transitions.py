from datetime import UTC, datetime, timedelta

import pytest

from cronhare.domain.execution import REPLAYABLE, STARTABLE, UNFINISHED, WAITING, Execution, State
from cronhare.domain.lifecycle.claims import left_out, why_not_replayed
from cronhare.domain.lifecycle.transitions import (
    EARLIEST,
    cancel,
    changes,
    end,
    publish,
    start,
)
from cronhare.domain.messages import Nacks
from cronhare.domain.retries.outcome import Crash, Ending
from cronhare.domain.retries.retry import RetryAfter
from cronhare.domain.schedules.draft import ScheduleDraft, compile_schedule
from cronhare.domain.schedules.skips import Circumstances
from cronhare.domain.schedules.task import SYSTEM, TaskRef
from tests.unit.executions import NOON, execution

MINUTE = timedelta(minutes=1)


def test_a_change_is_told_by_the_fields_in_which_it_differs() -> None:
    running = execution(State.RUNNING, owner="ant", lease_until=NOON)

    after = end(running, RetryAfter(MINUTE, "retry 1/3"), Ending.CRASHED, now=NOON)

    assert changes(running, after) == {
        "state": State.RETRYING,
        "attempt": 2,
        "deaths": 1,
        "version": 2,
        "owner": None,
        "lease_until": None,
        "next_attempt_at": NOON + MINUTE,
        "check_at": NOON + MINUTE,
        "last_error": "retry 1/3",
        "crashes": (Crash(NOON, Ending.CRASHED, "ant"),),
    }
    assert changes(running, running) == {}


@pytest.mark.parametrize("state", State)
def test_only_what_waits_for_its_message_is_changed_by_a_publish(state: State) -> None:
    sent = execution(state)

    assert (publish(sent, now=NOON) != sent) == (state in STARTABLE)


@pytest.mark.parametrize("state", State)
def test_only_what_ended_badly_is_replayed(state: State) -> None:
    why_not = why_not_replayed(execution(state))

    assert why_not == (None if state in REPLAYABLE else f"it is {state}")


@pytest.mark.parametrize("state", State)
def test_only_what_has_not_ended_or_may_be_replayed_is_changed_by_a_cancel(state: State) -> None:
    asked = execution(state)

    after = cancel(asked, now=NOON)

    assert (after != asked) == after.cancel_requested == (state in UNFINISHED | REPLAYABLE)
    assert after.state is (State.CANCELLED if state in WAITING else state)


"""Who may start an attempt, what the start writes, and which nacks of its message count."""


SECOND = timedelta(seconds=1)
UNTIL = NOON + MINUTE
NO_NACKS = Nacks(by_queue={}, trip=MINUTE)

#: One nack for each minute that a message was in its queue.
MANY = Nacks(by_queue={"cron_scheduler": 99, "another": 99}, trip=MINUTE)


def started(
    asked: Execution,
    *,
    attempt: int = 1,
    nacks: Nacks | None = NO_NACKS,
    node: str = "ant",
    now: datetime = NOON,
) -> Execution | str:
    return start(asked, attempt=attempt, nacks=nacks, node=node, now=now, until=UNTIL)


def deaths_of(answer: Execution | str) -> int:
    assert isinstance(answer, Execution)
    return answer.deaths


@pytest.mark.parametrize(
    ("asked", "nacks", "why"),
    [
        (execution(problem="no number"), NO_NACKS, "its row is broken: no number"),
        (execution(problem="no number"), None, "its row is broken: no number"),
        (execution(task=TaskRef(SYSTEM, 1)), NO_NACKS, "it is the system's own, which no message"),
        (execution(attempt=2), NO_NACKS, "attempt 2 is due, not 1"),
        (execution(attempt=2), None, "attempt 2 is due, not 1"),
        (execution(State.RUNNING, owner="ant", attempt=2), NO_NACKS, "attempt 2 is due, not 1"),
        (execution(cancel_requested=True), NO_NACKS, "its end was asked for"),
        (execution(cancel_requested=True), None, "its end was asked for"),
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
        (NOON, {}, True),
        (NOON + EARLIEST, {}, True),
        (NOON + EARLIEST + SECOND, {}, False),
        (NOON + EARLIEST + SECOND, {"executed_at": NOON}, False),
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


@pytest.mark.parametrize(
    ("state", "published_at", "begins", "counted"),
    [
        (State.CLAIMED, None, None, 0),
        (State.CLAIMED, None, NOON - 2 * MINUTE, 0),
        (State.PUBLISHED, NOON - 4 * MINUTE, None, 4),
        (State.PUBLISHED, NOON - 4 * MINUTE, NOON - 2 * MINUTE, 2),  # it was in a lane first
        (State.PUBLISHED, NOON - 2 * MINUTE, NOON - 4 * MINUTE, 2),  # it was sent late
        (State.RETRYING, NOON - 9 * MINUTE, NOON - 3 * MINUTE, 3),
        (State.RETRYING, NOON - 3 * MINUTE, NOON - 9 * MINUTE, 9),
        (State.RETRYING, NOON - 9 * MINUTE, None, 0),
    ],
)
def test_nacks_count_since_a_worker_could_take_the_message(
    state: State, published_at: datetime | None, begins: datetime | None, counted: int
) -> None:
    asked = execution(state, published_at=published_at, next_attempt_at=begins, deaths=10)

    assert deaths_of(started(asked, nacks=MANY)) == 10 + counted
    assert deaths_of(started(asked, nacks=None)) == 10


@pytest.mark.parametrize(
    ("instant", "is_due"),
    [
        (NOON, True),
        (NOON + timedelta(seconds=30), False),
        (NOON - timedelta(microseconds=1), False),
        (datetime.max.replace(tzinfo=UTC), False),
    ],
)
def test_only_an_instant_that_was_due_is_one(instant: datetime, *, is_due: bool) -> None:
    draft = ScheduleDraft(name="a", task=TaskRef("report", 25), schedule="* * * * *")
    schedule = compile_schedule(draft, id=1, changed_at=NOON, source=None)

    assert left_out(schedule, Circumstances(calendars={}), instant) == (is_due, None)
