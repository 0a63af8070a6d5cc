"""What every ledger promises of retry budgets, breakers, and catching up."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from datetime import datetime, timedelta
from operator import itemgetter

import attrs
import pytest

from cronhare.application.administration.changing.work import LimitDesk
from cronhare.application.administration.views.work import BudgetView
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import CatchUp, Limited
from cronhare.domain.retries.limits import (
    ACTIVATED,
    IDLE_FOR,
    BreakerPolicy,
    BudgetPolicy,
    Changed,
    OnExhausted,
    RetryLimits,
    catch_up_policy,
)
from cronhare.domain.retries.retry import Complete, Fail, GiveBack, RetryAfter, Verdict
from cronhare.domain.schedules.schedule import Concurrency, Misfire, MisfirePolicy
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import (
    Busy,
    Deferred,
    Finish,
    Recorded,
    Refused,
    StartAnswer,
    Superseded,
)
from cronhare.ports.records import Retention
from cronhare.ports.runner import AttemptResult
from tests.actors import ADA
from tests.integration.ledgers import (
    FAILURE,
    FOR_GOOD,
    HOUR,
    IN_30_S,
    LEASE,
    LOSS,
    MICROSECOND,
    MINUTE,
    ON_ONE,
    SECOND,
    SUCCESS,
    Ledger,
    all_running,
    at_once,
)

BUDGET = RetryLimits(budget=BudgetPolicy(most=2, window=MINUTE))
BREAKER = RetryLimits(breaker=BreakerPolicy(least=2, window=5 * MINUTE, pause=MINUTE))


def desk(ledger: Ledger) -> LimitDesk:
    return LimitDesk(limits=ledger.limits, trail=ledger.trail)


def fail(ledger: Ledger, limits: RetryLimits, *executions: Execution) -> list[Recorded | Busy]:
    return ledger.finish_all(executions, IN_30_S, limits=limits)


def test_what_remains_of_a_budget_can_be_read_and_is_never_below_0(ledger: Ledger) -> None:
    first, *rest = all_running(ledger, 5)
    assert desk(ledger).budgets() == []

    fail(ledger, BUDGET, first)
    [one] = desk(ledger).budgets()
    fail(ledger, BUDGET, *rest)
    ledger.clock.advance(SECOND)
    [spent] = desk(ledger).budgets()

    assert (one.queue, one.limit, one.remaining, one.can_retry) == ("cron_scheduler", 2, 1, True)
    assert spent == BudgetView(
        queue="cron_scheduler",
        limit=2,
        window_seconds=60,
        remaining=0,
        can_retry=False,
        deferred_until=ledger.now - SECOND + 2 * MINUTE,
        spent_since=ledger.now - SECOND,
    )


def test_an_open_breaker_is_seen_and_closed_by_a_reset(ledger: Ledger) -> None:
    first, second, third = all_running(ledger, 3)
    fail(ledger, BREAKER, first, second)
    [was] = desk(ledger).breakers()

    answer = desk(ledger).reset("report 25", actor=ADA)

    assert (was.task, was.state, was.failed, was.succeeded) == ("report 25", "open", 2, 0)
    assert (was.opened_at, was.probe_at) == (ledger.now, ledger.now + MINUTE)
    assert answer == was
    assert desk(ledger).breakers() == []
    assert fail(ledger, BREAKER, third) == [State.RETRYING]


def test_limits_that_were_idle_for_long_are_cleaned_up_and_no_others(ledger: Ledger) -> None:
    first, second = all_running(ledger, 2)
    fail(ledger, RetryLimits(budget=BUDGET.budget, breaker=BREAKER.breaker), first)
    ledger.clock.advance(IDLE_FOR)
    ledger.records.clean_up(now=ledger.now, retention=Retention())
    kept = len(desk(ledger).budgets()), len(desk(ledger).breakers())

    ledger.clock.advance(SECOND)
    ledger.records.clean_up(now=ledger.now, retention=Retention())

    assert kept == (1, 1)
    assert (desk(ledger).budgets(), desk(ledger).breakers()) == ([], [])
    assert fail(ledger, BUDGET, second) == [State.RETRYING]


# Retry budgets


def limited_to(most: int, on_exhausted: OnExhausted = OnExhausted.DEFER) -> RetryLimits:
    return RetryLimits(budget=BudgetPolicy(most=most, window=MINUTE, on_exhausted=on_exhausted))


def test_what_the_budget_has_no_place_for_now_is_deferred_to_the_next_one(ledger: Ledger) -> None:
    first, second, third = all_running(ledger, 3)

    granted = fail(ledger, limited_to(2), first, second)
    ledger.clock.advance(10 * SECOND)
    [deferred] = fail(ledger, limited_to(2), third)

    assert granted == [State.RETRYING, State.RETRYING]
    assert isinstance(deferred, Limited)
    assert [change.what for change in deferred.changes] == [Changed.BUDGET_SPENT]
    assert isinstance(deferred.verdict, RetryAfter)
    assert deferred.verdict.delay == 50 * SECOND + IN_30_S.delay
    found = ledger.seen(third)
    assert (found.state, found.next_attempt_at) == (State.RETRYING, ledger.now + 80 * SECOND)
    assert found.last_error == deferred.verdict.reason


def test_a_spent_budget_that_lets_retries_fail_archives_them(ledger: Ledger) -> None:
    first, second = all_running(ledger, 2)

    _, answer = fail(ledger, limited_to(1, OnExhausted.FAIL), first, second)

    assert isinstance(answer, Limited)
    assert isinstance(answer.verdict, Fail)
    [archived] = ledger.records.archive()
    assert (archived.execution_id, archived.failed_reason) == (second.id, answer.verdict.reason)
    assert ledger.seen(second).state is State.FAILED


def test_8_threads_that_ask_at_once_are_granted_the_limit_in_any_window(ledger: Ledger) -> None:
    executions, limits = all_running(ledger, 32), limited_to(5)

    answers = at_once(8, lambda n: fail(ledger, limits, *executions[n::8]))

    assert not any(isinstance(one, Busy) for part in answers for one in part)
    begin = [ledger.seen(each).next_attempt_at for each in executions]
    waits = Counter((at - ledger.now - IN_30_S.delay) // MINUTE for at in begin if at is not None)
    assert waits == dict.fromkeys(range(6), 5) | {6: 2}


def test_a_finish_that_is_repeated_is_granted_once_and_answered_again(ledger: Ledger) -> None:
    limits = limited_to(1)
    first, second, third = all_running(ledger, 3)
    [_, answer] = fail(ledger, limits, first, second)

    again = fail(ledger, limits, first, second)
    [last] = fail(ledger, limits, third)

    assert isinstance(answer, Limited)
    assert isinstance(last, Limited)
    assert isinstance(last.verdict, RetryAfter)
    assert [one.verdict for one in again if isinstance(one, Limited)] == [
        RetryAfter(IN_30_S.delay, IN_30_S.reason),
        answer.verdict,
    ]
    assert last.verdict.delay == 2 * MINUTE + IN_30_S.delay


def test_a_lost_attempt_takes_from_the_budget_and_what_is_given_back_does_not(
    ledger: Ledger,
) -> None:
    limits = limited_to(1)
    lost, back, last = all_running(ledger, 3)
    ledger.finish_all([back], GiveBack("shutdown"), limits=limits)
    ledger.clock.advance(LEASE)
    loss = Finish(execution=lost, ran=LOSS, verdict=IN_30_S, limits=limits)

    [granted] = ledger.attempts.give_up([loss], now=ledger.now)
    [again] = ledger.attempts.give_up([loss], now=ledger.now)
    [deferred] = fail(ledger, limits, last)

    assert (granted, again) == (State.RETRYING, Superseded())
    assert isinstance(deferred, Limited)
    assert isinstance(deferred.verdict, RetryAfter)
    assert deferred.verdict.delay == MINUTE + IN_30_S.delay


# Circuit breakers: one state for all nodes


PAUSE = timedelta(seconds=40)
LIMITS = RetryLimits(breaker=BreakerPolicy(least=4, window=5 * MINUTE, pause=PAUSE))
BROKEN = Fail(ACTIVATED)


def end(
    ledger: Ledger,
    *executions: Execution,
    verdict: Verdict = IN_30_S,
    ran: AttemptResult = FAILURE,
) -> list[Recorded | Busy]:
    return ledger.finish_all(executions, verdict, ran, limits=LIMITS)


def succeed(ledger: Ledger, *executions: Execution) -> list[Recorded | Busy]:
    return end(ledger, *executions, verdict=Complete(), ran=SUCCESS)


def told(answers: list[Recorded | Busy]) -> list[Changed]:
    return [x.what for one in answers if isinstance(one, Limited) for x in one.changes]


def verdicts(answers: list[Recorded | Busy]) -> list[Verdict | Recorded | Busy]:
    return [one.verdict if isinstance(one, Limited) else one for one in answers]


def opened(ledger: Ledger, *, more: int = 0) -> list[Execution]:
    """Let four attempts fail, of which the first three wait for a retry; give these, and *more*."""
    ledger.plan_edited()
    first, *rest = all_running(ledger, 4 + more)
    assert told(end(ledger, first, *rest[:3])) == [Changed.BREAKER_OPENED]
    return [first, *rest[:2], *rest[3:]]


def test_above_the_rate_no_retry_is_granted_and_what_fails_is_archived(ledger: Ledger) -> None:
    first, second, third, fourth, fifth = all_running(ledger, 5)

    answers = end(ledger, first, second, third, fourth)
    last = end(ledger, fifth)

    assert verdicts(answers) == [State.RETRYING] * 3 + [BROKEN]
    assert told(answers) == [Changed.BREAKER_OPENED]
    assert last == [Limited(BROKEN)]
    assert ledger.seen(fifth).last_error == "Circuit breaker activated"
    reasons = {one.execution_id: one.failed_reason for one in ledger.records.archive()}
    assert reasons == {each.id: "Circuit breaker activated" for each in (fourth, fifth)}


def test_successes_of_the_same_task_and_window_keep_it_closed_and_no_others(
    ledger: Ledger,
) -> None:
    good, *rest = all_running(ledger, 10)
    other = ledger.started(ledger.claimed("other", task=TaskRef("report", 26)))
    succeed(ledger, good, *rest[:3])
    succeed(ledger, other)

    at_the_rate = end(ledger, *rest[3:7])
    above_it = end(ledger, rest[7])

    assert at_the_rate == [State.RETRYING] * 4
    assert verdicts(above_it) == [BROKEN]


def test_after_its_pause_one_retry_of_all_that_ask_at_once_is_the_probe(ledger: Ledger) -> None:
    *_, asking = [opened(ledger, more=8)]
    ledger.clock.advance(PAUSE)

    answers = [one for part in at_once(8, lambda n: end(ledger, asking[3 + n])) for one in part]

    assert told(answers) == [Changed.BREAKER_PROBED]
    granted = [each for each in asking[3:] if ledger.seen(each).state is State.RETRYING]
    assert len(granted) == 1
    assert sorted(map(str, verdicts(answers))) == sorted([*[str(BROKEN)] * 7, str(IN_30_S)])


@pytest.mark.parametrize("succeeds", [True, False])
def test_it_closes_when_its_probe_succeeds_and_opens_again_when_it_fails(
    ledger: Ledger, *, succeeds: bool
) -> None:
    *_, probe, last, another = opened(ledger, more=3)
    ledger.clock.advance(PAUSE)
    end(ledger, probe)
    probing = ledger.started(ledger.seen(probe))

    over = succeed(ledger, probing) if succeeds else end(ledger, probing, verdict=FOR_GOOD)
    after = end(ledger, last)
    ledger.clock.advance(PAUSE)

    assert told(over) == [Changed.BREAKER_CLOSED if succeeds else Changed.BREAKER_OPENED]
    assert verdicts(after) == [State.RETRYING if succeeds else BROKEN]
    assert verdicts(end(ledger, another)) == [State.RETRYING if succeeds else IN_30_S]


@ON_ONE
@pytest.mark.parametrize("cancelled", [True, False])
def test_a_probe_that_is_cancelled_or_waits_for_a_pause_gives_its_place_to_the_next(
    ledger: Ledger, *, cancelled: bool
) -> None:
    *_, probe, refused, last = opened(ledger, more=3)
    ledger.clock.advance(PAUSE)
    end(ledger, probe, verdict=RetryAfter(60 * MINUTE, "retry 1"))
    ledger.clock.advance(PAUSE - SECOND)
    before = end(ledger, refused)
    if cancelled:
        ledger.records.cancel(probe.id, now=ledger.now)
    else:
        ledger.clock.advance(SECOND)

    after = end(ledger, last)

    assert (verdicts(before), told(after)) == ([BROKEN], [Changed.BREAKER_PROBED])


@ON_ONE
def test_no_retry_is_a_probe_while_its_queue_has_no_place_for_one(ledger: Ledger) -> None:
    *_, too_early, probe = opened(ledger, more=2)
    ledger.clock.advance(PAUSE)
    budget = BudgetPolicy(most=1, window=20 * SECOND, on_exhausted=OnExhausted.FAIL)
    both = attrs.evolve(LIMITS, budget=budget)
    other, last = (
        ledger.started(ledger.claimed(name, task=TaskRef("report", 99))) for name in ("a", "b")
    )

    spent = fail(ledger, both, other, too_early)
    ledger.clock.advance(budget.window)
    free = fail(ledger, both, probe, last)

    assert (verdicts(spent)[1], Changed.BREAKER_PROBED in told(spent)) == (BROKEN, False)
    assert (told(free)[0], ledger.seen(probe).state) == (Changed.BREAKER_PROBED, State.RETRYING)
    assert ledger.seen(last).state is State.FAILED, "the probe has taken the place"


@ON_ONE
def test_a_success_of_another_run_since_it_has_a_probe_closes_it_as_well(ledger: Ledger) -> None:
    *_, probe, well, last = opened(ledger, more=3)
    ledger.clock.advance(PAUSE)
    end(ledger, probe)
    ledger.clock.advance(SECOND)
    succeed(ledger, well)

    answers = end(ledger, last)

    assert told(answers) == [Changed.BREAKER_CLOSED]
    assert verdicts(answers) == [IN_30_S]


# Late runs, and retries that an outage held up, start as budgets have room


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
    catch_up = CatchUp(budget=budget, free_at=free_at or ledger.now)
    return ledger.start_all(executions, node=node, catch_up=catch_up)


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
    catch_up = CatchUp(budget=None, late=catch_up_policy(1), free_at=ledger.now)

    answers = ledger.start_all([*late, gated, by_hand], catch_up=catch_up)

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
