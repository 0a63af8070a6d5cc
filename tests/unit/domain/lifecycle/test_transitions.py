from datetime import datetime, timedelta

import msgspec
import pytest

from cronhare.domain.execution import REPLAYABLE, STARTABLE, UNFINISHED, WAITING, State
from cronhare.domain.lifecycle.replay import ALREADY_OVERDUE, DEFAULT_ALLOWANCE, replays
from cronhare.domain.lifecycle.transitions import (
    begin,
    cancel,
    changes,
    end,
    hand_over,
    may_hand_over,
    publish,
    set_apart,
)
from cronhare.domain.retries.outcome import Crash, Ending
from cronhare.domain.retries.retry import Quarantine, RetryAfter
from tests.unit.executions import NOON, execution

MINUTE = timedelta(minutes=1)
NONE = timedelta(0)


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
