"""What every ledger promises of circuit breakers: one state for all nodes."""

from datetime import timedelta

import attrs
import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import Limited
from cronhare.domain.retries.limits import (
    ACTIVATED,
    BreakerPolicy,
    BudgetPolicy,
    Changed,
    OnExhausted,
    RetryLimits,
)
from cronhare.domain.retries.retry import Complete, Fail, RetryAfter, Verdict
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import Busy, Finish, Recorded
from cronhare.ports.runner import AttemptResult
from tests.integration.ledgers import (
    FAILURE,
    FOR_GOOD,
    IN_30_S,
    MINUTE,
    ON_ONE,
    SECOND,
    SUCCESS,
    Ledger,
    all_running,
    at_once,
)

PAUSE = timedelta(seconds=40)
LIMITS = RetryLimits(breaker=BreakerPolicy(least=4, window=5 * MINUTE, pause=PAUSE))
BROKEN = Fail(ACTIVATED)


def end(
    ledger: Ledger,
    *executions: Execution,
    verdict: Verdict = IN_30_S,
    ran: AttemptResult = FAILURE,
) -> list[Recorded | Busy]:
    finishes = [
        Finish(execution=each, ran=ran, verdict=verdict, limits=LIMITS) for each in executions
    ]
    return [*ledger.attempts.finish(finishes, now=ledger.now, node="ant")]


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
def test_a_probe_that_is_cancelled_gives_its_place_to_the_next(ledger: Ledger) -> None:
    *_, probe, refused, last = opened(ledger, more=3)
    ledger.clock.advance(PAUSE)
    end(ledger, probe)
    before = end(ledger, refused)
    ledger.records.cancel(probe.id, now=ledger.now)

    after = end(ledger, last)

    assert (verdicts(before), told(after)) == ([BROKEN], [Changed.BREAKER_PROBED])


@ON_ONE
def test_a_probe_that_waits_for_long_gives_its_place_to_the_next_after_a_pause(
    ledger: Ledger,
) -> None:
    *_, probe, refused, last = opened(ledger, more=3)
    ledger.clock.advance(PAUSE)
    end(ledger, probe, verdict=RetryAfter(60 * MINUTE, "retry 1"))
    ledger.clock.advance(PAUSE - SECOND)
    before = end(ledger, refused)
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

    def finish(*asked: Execution) -> list[Recorded | Busy]:
        ends = [Finish(execution=each, ran=FAILURE, verdict=IN_30_S, limits=both) for each in asked]
        return [*ledger.attempts.finish(ends, now=ledger.now, node="ant")]

    spent = finish(other, too_early)
    ledger.clock.advance(budget.window)
    free = finish(probe, last)

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


@ON_ONE
def test_one_that_a_clock_opened_which_leapt_ahead_holds_nothing_back(ledger: Ledger) -> None:
    ledger.clock.advance(120 * MINUTE)
    *_, last = opened(ledger, more=1)
    ledger.clock.move_to(ledger.now - 119 * MINUTE)

    answers = end(ledger, last)

    assert told(answers) == [Changed.BREAKER_CLOSED]
    assert verdicts(answers) == [IN_30_S]
