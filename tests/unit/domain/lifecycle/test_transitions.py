from datetime import timedelta

import pytest

from cronhare.domain.execution import REPLAYABLE, STARTABLE, UNFINISHED, State
from cronhare.domain.lifecycle.replay import ALREADY_OVERDUE, replays
from cronhare.domain.lifecycle.transitions import cancel, changes, end, may_hand_over, publish
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.retries.retry import RetryAfter
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
        "crashed_at": (NOON,),
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


@pytest.mark.parametrize("state", State)
def test_only_what_has_not_ended_is_changed_by_a_cancel(state: State) -> None:
    asked = execution(state)

    after = cancel(asked, now=NOON)

    assert (after != asked) == after.cancel_requested == (state in UNFINISHED)
    assert after.state is (State.CANCELLED if state in STARTABLE else state)


def test_replays_are_spaced_and_of_several_rows_of_one_execution_the_oldest_counts() -> None:
    found = {number: execution(State.FAILED, id=number) for number in (1, 2)}
    asked = [(10, found[1]), (11, found[1]), (12, None), (13, execution()), (14, found[2])]

    replayed = list(replays(asked, now=NOON, apart=MINUTE))

    assert [(row, before) for row, before, _ in replayed] == [(10, found[1]), (14, found[2])]
    assert [after.next_attempt_at for _, _, after in replayed] == [
        NOON - ALREADY_OVERDUE,
        NOON + MINUTE,
    ]


@pytest.mark.parametrize("state", State)
def test_only_what_ended_badly_is_replayed(state: State) -> None:
    replayed = list(replays([(1, execution(state))], now=NOON, apart=MINUTE))

    assert bool(replayed) == (state in REPLAYABLE)
