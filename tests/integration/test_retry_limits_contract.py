"""What every ledger promises of the limits of retries: held by all nodes together."""

from collections import Counter

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import Limited
from cronhare.domain.retries.limits import BudgetPolicy, Changed, OnExhausted, RetryLimits
from cronhare.domain.retries.retry import Fail, GiveBack, RetryAfter
from cronhare.ports.attempts import Busy, Finish, Recorded, Superseded
from tests.integration.ledgers import (
    FAILURE,
    IN_30_S,
    LEASE,
    LOSS,
    MINUTE,
    SECOND,
    Ledger,
    Shell,
    all_running,
    at_once,
)


def limited_to(most: int, on_exhausted: OnExhausted = OnExhausted.DEFER) -> RetryLimits:
    return RetryLimits(budget=BudgetPolicy(most=most, window=MINUTE, on_exhausted=on_exhausted))


def failing(execution: Execution, limits: RetryLimits) -> Finish:
    return Finish(execution=execution, ran=FAILURE, verdict=IN_30_S, limits=limits)


def fail(ledger: Ledger, limits: RetryLimits, *executions: Execution) -> list[Recorded | Busy]:
    finishes = [failing(each, limits) for each in executions]
    return [*ledger.attempts.finish(finishes, now=ledger.now, node="ant")]


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
    given_back = Finish(execution=back, ran=FAILURE, verdict=GiveBack("shutdown"), limits=limits)
    ledger.attempts.finish([given_back], now=ledger.now, node="ant")
    ledger.clock.advance(LEASE)
    loss = attrs.evolve(failing(lost, limits), ran=LOSS)

    [granted] = ledger.attempts.give_up([loss], now=ledger.now)
    [again] = ledger.attempts.give_up([loss], now=ledger.now)
    [deferred] = fail(ledger, limits, last)

    assert (granted, again) == (State.RETRYING, Superseded())
    assert isinstance(deferred, Limited)
    assert isinstance(deferred.verdict, RetryAfter)
    assert deferred.verdict.delay == MINUTE + IN_30_S.delay


def test_a_budget_that_somebody_spoilt_begins_anew(sqlite: Ledger, sqlite_shell: Shell) -> None:
    sqlite.plan_edited()
    first, second, third = all_running(sqlite, 3)
    fail(sqlite, limited_to(1), first)
    sqlite_shell("UPDATE RetryBudget SET granted = '[[1,'")

    answers = fail(sqlite, limited_to(1), second, third)

    assert answers[0] is State.RETRYING
    assert isinstance(answers[1], Limited)
    assert answers[1].verdict.reason.endswith("Z")
