from datetime import datetime, timedelta

import msgspec
import pytest

from cronhare.domain.execution import REPLAYABLE, STARTABLE, UNFINISHED, WAITING, Execution, State
from cronhare.domain.lifecycle.replay import ALREADY_OVERDUE, DEFAULT_ALLOWANCE, replays
from cronhare.domain.lifecycle.transitions import (
    EARLIEST,
    begin,
    cancel,
    changes,
    end,
    hand_over,
    may_hand_over,
    publish,
    set_apart,
    start,
)
from cronhare.domain.messages import Nacks
from cronhare.domain.retries.outcome import Crash, Ending
from cronhare.domain.retries.retry import Quarantine, RetryAfter
from cronhare.domain.schedules.task import SYSTEM, TaskRef
from tests.unit.executions import NOON, execution

MINUTE = timedelta(minutes=1)
NONE = timedelta(0)


def test_a_message_is_named_by_execution_and_attempt() -> None:
    assert execution(id=17, attempt=3).message_id == "17:3"


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


def test_a_copy_of_what_waits_for_its_time_changes_nothing() -> None:
    sent = execution(State.RETRYING, next_attempt_at=NOON + MINUTE)

    assert publish(sent, now=NOON) == sent


@pytest.mark.parametrize("state", State)
def test_only_what_waits_is_handed_over(state: State) -> None:
    sent = execution()

    assert may_hand_over(sent, state, 1) == (state in STARTABLE)
    assert not may_hand_over(sent, state, 2)


@pytest.mark.parametrize("published_at", [None, NOON - MINUTE])
def test_what_is_handed_over_keeps_when_it_was_published(published_at: datetime | None) -> None:
    waiting = execution(
        State.PUBLISHED, published_at=published_at, next_attempt_at=NOON, check_at=NOON
    )

    assert changes(waiting, hand_over(waiting, now=NOON)) == {
        "state": State.HANDED_OVER,
        "version": 2,
        "next_attempt_at": None,
        "check_at": None,
        "finished_at": NOON,
    } | ({"published_at": NOON} if published_at is None else {})


@pytest.mark.parametrize(("deaths", "after"), [(0, 2), (2, 2), (3, 3)])
def test_a_start_never_lowers_the_deaths(deaths: int, after: int) -> None:
    waiting = execution(State.RETRYING, deaths=2)

    begun = begin(waiting, deaths=deaths, node="ant", lease_until=NOON + MINUTE, now=NOON)

    assert begun.deaths == after


def test_a_quarantine_is_one_more_change_of_a_sound_row() -> None:
    running = execution(State.RUNNING, owner="ant", lease_until=NOON, version=7)

    assert changes(running, end(running, Quarantine("3 crashes"), Ending.LOST, now=NOON)) == {
        "state": State.QUARANTINED,
        "version": 8,
        "owner": None,
        "lease_until": None,
        "finished_at": NOON,
        "last_error": "3 crashes",
        "crashes": (Crash(NOON, Ending.LOST, "ant"),),
    }


def test_the_version_of_what_is_set_apart_begins_anew() -> None:
    waiting = execution(
        State.RETRYING, owner="ant", lease_until=NOON, next_attempt_at=NOON, check_at=NOON
    )
    broken = msgspec.structs.replace(waiting, version=2**63 - 1)

    assert changes(broken, set_apart(broken, "no number", now=NOON)) == {
        "state": State.QUARANTINED,
        "version": 1,
        "owner": None,
        "lease_until": None,
        "next_attempt_at": None,
        "check_at": None,
        "finished_at": NOON,
        "last_error": "no number",
    }


@pytest.mark.parametrize("state", State)
def test_only_what_has_not_ended_or_may_be_replayed_is_changed_by_a_cancel(state: State) -> None:
    asked = execution(state)

    after = cancel(asked, now=NOON)

    assert (after != asked) == after.cancel_requested == (state in UNFINISHED | REPLAYABLE)
    assert after.state is (State.CANCELLED if state in WAITING else state)


def test_of_several_rows_of_one_execution_the_oldest_is_replayed() -> None:
    found = {number: execution(State.FAILED, id=number) for number in (1, 2)}
    asked = [(10, found[1]), (11, found[1]), (12, None), (13, execution()), (14, found[2])]

    replayed = list(replays(asked, now=NOON, allowance=DEFAULT_ALLOWANCE, head_start=NONE))

    assert [(row, before) for row, before, _ in replayed] == [(10, found[1]), (14, found[2])]
    assert {after.next_attempt_at for _, _, after in replayed} == {NOON - ALREADY_OVERDUE}


@pytest.mark.parametrize("state", State)
def test_only_what_ended_badly_is_replayed(state: State) -> None:
    asked = [(1, execution(state))]

    replayed = list(replays(asked, now=NOON, allowance=DEFAULT_ALLOWANCE, head_start=NONE))

    assert bool(replayed) == (state in REPLAYABLE)


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


@pytest.mark.parametrize("state", State)
def test_only_what_waits_is_started(state: State) -> None:
    answer = started(execution(state, owner="bee"))

    if state in STARTABLE:
        assert isinstance(answer, Execution)
        assert (answer.state, answer.owner) == (State.RUNNING, "ant")
    else:
        assert answer == f"the execution is {state}"


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


def test_an_earlier_attempt_is_not_the_one_that_is_due() -> None:
    assert started(execution(attempt=1), attempt=2) == "attempt 1 is due, not 2"


def test_the_system_starts_its_own_without_a_message() -> None:
    assert isinstance(started(execution(task=TaskRef(SYSTEM, 1)), nacks=None), Execution)


def test_a_start_writes_owner_lease_and_time_and_ends_all_waiting() -> None:
    asked = execution(State.RETRYING, next_attempt_at=NOON, check_at=NOON, resends=3, version=7)

    assert started(asked) == execution(
        State.RUNNING, owner="ant", lease_until=UNTIL, started_at=NOON, version=8
    )


def test_a_later_attempt_keeps_when_the_first_one_began() -> None:
    answer = started(execution(State.RETRYING, started_at=NOON - MINUTE))

    assert isinstance(answer, Execution)
    assert answer.started_at == NOON - MINUTE


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_start_that_is_repeated_is_answered_as_the_first(*, is_cancelled: bool) -> None:
    running = execution(
        State.RUNNING, owner="ant", lease_until=UNTIL, version=2, cancel_requested=is_cancelled
    )

    assert started(running) is running


def test_a_start_that_is_repeated_later_renews_the_lease() -> None:
    running = execution(State.RUNNING, owner="ant", lease_until=NOON, version=2)

    assert started(running) == execution(State.RUNNING, owner="ant", lease_until=UNTIL, version=3)


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


def test_the_system_may_start_an_attempt_early() -> None:
    waiting = execution(State.RETRYING, next_attempt_at=NOON + MINUTE)

    assert isinstance(started(waiting, nacks=None), Execution)


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


def test_nacks_in_other_queues_do_not_count() -> None:
    asked = execution(State.PUBLISHED, queue="reports", published_at=NOON - MINUTE)

    assert deaths_of(started(asked, nacks=MANY)) == 0
