"""What every ledger promises of retries that an outage held up: they start as budgets have room."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import CatchUp
from cronhare.domain.retries.limits import BudgetPolicy, OnExhausted
from cronhare.domain.retries.retry import GiveBack
from cronhare.domain.schedules.schedule import Concurrency
from cronhare.ports.attempts import Busy, Deferred, Refused, StartAnswer, StartRequest
from tests.integration.ledgers import (
    IN_30_S,
    LEASE,
    MICROSECOND,
    MINUTE,
    SECOND,
    Ledger,
    all_running,
    at_once,
)
from tests.ports import NO_NACKS


def start(
    ledger: Ledger,
    *executions: Execution,
    most: int = 2,
    free_at: datetime | None = None,
    node: str = "ant",
) -> Sequence[StartAnswer]:
    """Ask for starts, as a worker does that was free just now."""
    budget = BudgetPolicy(most=most, window=MINUTE, on_exhausted=OnExhausted.FAIL)
    requests = [
        StartRequest(execution_id=one.id, attempt=one.attempt, nacks=NO_NACKS) for one in executions
    ]
    return ledger.attempts.start(
        requests,
        now=ledger.now,
        node=node,
        lease=LEASE,
        catch_up=CatchUp(budget=budget, free_at=free_at or ledger.now),
    )


def held_up(ledger: Ledger, how_many: int) -> list[Execution]:
    """Let retries wait through an outage of an hour."""
    running = all_running(ledger, how_many)
    waiting = [ledger.finished(one, IN_30_S) for one in running]
    ledger.clock.advance(60 * MINUTE)
    return waiting


def test_what_an_outage_held_up_starts_as_the_budget_has_places(ledger: Ledger) -> None:
    retries = held_up(ledger, 5)

    answers = start(ledger, *retries)

    assert [type(one) for one in answers] == [Execution, Execution, Deferred, Deferred, Deferred]
    deferred = [ledger.seen(one) for one in retries[2:]]
    assert [(one.state, one.attempt, one.deaths) for one in deferred] == [
        (State.RETRYING, 2, 1)
    ] * 3
    waits = [one.next_attempt_at - ledger.now for one in deferred if one.next_attempt_at]
    assert waits == [MINUTE, 90 * SECOND, 2 * MINUTE]
    assert [one.execution for one in answers if isinstance(one, Deferred)] == deferred
    assert [type(one) for one in start(ledger, *deferred)] == [Refused] * 3


def test_it_says_why_it_waits_once_however_often_it_is_deferred(ledger: Ledger) -> None:
    retries = held_up(ledger, 2)
    why = (
        f"{IN_30_S.reason}; deferred: an outage held it up, and the retry budget of queue "
        "cron_scheduler, 1 per 60 s, is spent"
    )
    start(ledger, *retries, most=1)
    first = ledger.seen(retries[1])
    ledger.clock.advance(60 * MINUTE)
    [third] = held_up(ledger, 1)

    start(ledger, third, ledger.seen(first), most=1)

    again = ledger.seen(third)
    assert first.last_error == why
    assert (again.state, again.last_error) == (State.RETRYING, why)
    assert ledger.seen(first).state is State.RUNNING  # it was due first


def test_each_starts_at_its_place_and_asks_for_no_other(ledger: Ledger) -> None:
    retries = held_up(ledger, 5)
    opened = ledger.now
    start(ledger, *retries, free_at=opened)
    ledger.clock.advance(5 * MINUTE)  # this worker was busy meanwhile

    answers = start(ledger, *map(ledger.seen, retries[2:]), free_at=opened)

    assert all(isinstance(one, Execution) for one in answers)


def test_what_waits_in_a_long_queue_alone_is_not_deferred(ledger: Ledger) -> None:
    retries = held_up(ledger, 3)
    due = retries[0].next_attempt_at
    assert due is not None

    answers = start(ledger, *retries, most=1, free_at=due + MINUTE)

    assert all(isinstance(one, Execution) for one in answers)
    assert ledger.limits.budgets(limit=9) == []


def test_first_attempts_and_those_of_replays_are_never_deferred(ledger: Ledger) -> None:
    execution = ledger.claimed()
    ledger.clock.advance(60 * MINUTE)

    [answer] = start(ledger, execution, most=1)

    assert isinstance(answer, Execution)
    assert ledger.limits.budgets(limit=9) == []


def test_what_a_shutdown_interrupted_is_no_retry(ledger: Ledger) -> None:
    running = all_running(ledger, 3)
    given_back = [ledger.finished(one, GiveBack("interrupted")) for one in running]
    ledger.clock.advance(60 * MINUTE)

    answers = start(ledger, *given_back, most=1)

    assert [type(one) for one in answers] == [Execution] * 3


def test_workers_that_ask_at_once_start_no_more_than_the_budget_has(ledger: Ledger) -> None:
    retries = held_up(ledger, 32)

    at_once(4, lambda n: start(ledger, *retries[n::4], most=8, node=f"ant-{n}"))

    running = ledger.executions(State.RUNNING)
    places = sorted(
        one.next_attempt_at for one in ledger.executions(State.RETRYING) if one.next_attempt_at
    )
    assert (len(running), len(places)) == (8, 24)
    per_minute = Counter((place - ledger.now) // MINUTE for place in places)
    assert max(per_minute.values()) <= 8
    assert all(
        later - first >= MINUTE - 1_000 * MICROSECOND
        for first, later in zip(places, places[8:], strict=False)
    )


def test_a_cancelled_retry_is_refused_and_takes_no_place(ledger: Ledger) -> None:
    first, second = held_up(ledger, 2)
    ledger.records.cancel(first.id, now=ledger.now)

    answers = start(ledger, first, second, most=1)

    assert [type(one) for one in answers] == [Refused, Execution]


def test_what_its_gate_holds_back_has_had_its_place(ledger: Ledger) -> None:
    retries = []
    for name in ("a", "b", "c"):
        one = ledger.claimed(name, concurrency=Concurrency(key="customer", limit=1))
        while isinstance(started := ledger.start(one), Busy):  # the gate's row is made first
            pass
        assert isinstance(started, Execution)
        retries.append(ledger.finished(started, IN_30_S))
    ledger.clock.advance(60 * MINUTE)

    start(ledger, *retries, most=2)

    states = sorted(ledger.seen(one).state for one in retries)
    assert states == [State.HELD, State.RETRYING, State.RUNNING]
