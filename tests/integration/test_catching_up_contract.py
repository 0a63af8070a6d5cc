"""What every ledger promises of retries that an outage held up: they start as budgets have room."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from datetime import datetime, timedelta
from operator import itemgetter

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import CatchUp
from cronhare.domain.retries.limits import BudgetPolicy, OnExhausted, catch_up_policy
from cronhare.domain.retries.retry import GiveBack
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy
from cronhare.ports.attempts import Deferred, Refused, StartAnswer, StartRequest
from tests.integration.ledgers import (
    HOUR,
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

ALL = Misfire(policy=MisfirePolicy.ALL)


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


def with_budget(ledger: Ledger, most: int) -> Ledger:
    """Give the ledger as a scheduler has it that lets so many late runs begin in a minute."""
    late = copy(ledger)
    late.claims = copy(ledger.claims)
    late.claims._late = catch_up_policy(most)  # type: ignore[attr-defined] # as its process is told
    return late


def turns(ledger: Ledger) -> list[tuple[str, timedelta]]:
    """Tell after how long each claimed run begins, in that order."""
    runs = [one for one in ledger.executions() if one.state is not State.SKIPPED]
    begins = [(one.schedule_name, one.next_attempt_at or ledger.now) for one in runs]
    return sorted(((name, at - ledger.now) for name, at in begins), key=itemgetter(1, 0))


def test_late_runs_begin_in_the_order_of_their_due_times_as_many_as_the_budget_lets(
    ledger: Ledger,
) -> None:
    for hour in (3, 1, 5, 2, 4):
        ledger.add(f"at-{hour}", schedule=f"0 {12 + hour} * * *")
    ledger.clock.advance(6 * HOUR)

    batch = with_budget(ledger, 2).claim_due()

    assert len(batch.claimed) == 5
    waits = [timedelta(0), timedelta(0), MINUTE, 90 * SECOND, 2 * MINUTE]
    assert turns(ledger) == [(f"at-{n}", wait) for n, wait in enumerate(waits, start=1)]
    [waiting] = [one for one in ledger.executions() if one.schedule_name == "at-5"]
    assert waiting.last_error == (
        "catches up: CRON_CATCH_UP_BUDGET lets 2 late runs begin in a minute"
    )
    assert isinstance(ledger.start(waiting), Refused)
    assert ledger.limits.budgets(limit=9) == []  # it is of no queue


def test_what_is_on_time_waits_for_no_late_run(ledger: Ledger) -> None:
    ledger.add("late", schedule="0 12-17 * * *", misfire=ALL)
    ledger.add("on-time", schedule="0 18 * * *")
    ledger.clock.advance(6 * HOUR)

    with_budget(ledger, 1).claim_due()

    assert [wait for name, wait in turns(ledger) if name == "on-time"] == [timedelta(0)]
    assert [wait for name, wait in turns(ledger) if name == "late"] == [
        n * MINUTE for n in range(5)
    ]


def test_replicas_that_claim_at_once_share_the_budget(ledger: Ledger) -> None:
    for number in range(24):
        ledger.add(f"s{number}", schedule="0 * * * *")
    ledger.clock.advance(6 * HOUR + 2 * MINUTE)
    scheduler = with_budget(ledger, 4)

    at_once(6, lambda n: scheduler.claim_due(node=f"ant-{n}", limit=4))
    while scheduler.claim_due().looked:
        pass

    waits = [wait for _, wait in turns(ledger)]
    assert len(waits) == 24
    for begins in waits:
        assert sum(begins <= wait < begins + MINUTE for wait in waits) <= 4


def test_what_no_worker_took_in_time_begins_as_the_budget_lets_and_other_runs_at_once(
    ledger: Ledger,
) -> None:
    late = [ledger.published(f"s{n}") for n in range(3)]
    gated = ledger.published("gated", concurrency=Concurrency(key="k", limit=9))
    by_hand = ledger.run_now(late[0].scheduler_id, "manual-1")
    ledger.clock.advance(60 * MINUTE)
    requests = [
        StartRequest(execution_id=one.id, attempt=1, nacks=NO_NACKS)
        for one in (*late, gated, by_hand)
    ]
    catch_up = CatchUp(budget=None, late=catch_up_policy(1), free_at=ledger.now)

    answers = ledger.attempts.start(
        requests, now=ledger.now, node="ant", lease=LEASE, catch_up=catch_up
    )

    kinds = [type(one) for one in answers]
    assert kinds == [Execution, Deferred, Deferred, Execution, Execution]
    waits = [(one.next_attempt_at or ledger.now) - ledger.now for one in map(ledger.seen, late[1:])]
    assert waits == [MINUTE, 2 * MINUTE]
    deferred = ledger.seen(late[2])
    assert deferred.last_error == (
        "catches up: CRON_CATCH_UP_BUDGET lets 1 late run begin in a minute"
    )
    ledger.clock.advance(2 * MINUTE)
    assert isinstance(ledger.start(deferred), Execution)


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


def test_only_retries_that_an_outage_held_up_are_deferred(ledger: Ledger) -> None:
    interrupted = [ledger.finished(one, GiveBack("interrupted")) for one in all_running(ledger, 3)]
    first_attempt = ledger.claimed()
    in_a_long_queue = held_up(ledger, 3)
    due = in_a_long_queue[0].next_attempt_at
    assert due is not None

    at_once = start(ledger, *interrupted, first_attempt, most=1)
    answers = [*at_once, *start(ledger, *in_a_long_queue, most=1, free_at=due + MINUTE)]

    assert all(isinstance(one, Execution) for one in answers)
    assert ledger.limits.budgets(limit=9) == []


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
