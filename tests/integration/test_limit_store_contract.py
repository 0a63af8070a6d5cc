"""What every ledger promises of budgets and breakers as people see them."""

from cronhare.application.administration.changing.work import RetryLimitDesk
from cronhare.application.administration.reading.limits import LimitViews
from cronhare.application.administration.views.work import BudgetView
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.limits import IDLE_FOR, BreakerPolicy, BudgetPolicy, RetryLimits
from cronhare.ports.attempts import Finish, Recorded
from cronhare.ports.records import Retention
from tests.actors import ADA
from tests.integration.ledgers import FAILURE, IN_30_S, MINUTE, SECOND, Ledger, all_running

BUDGET = RetryLimits(budget=BudgetPolicy(most=2, window=MINUTE))
BREAKER = RetryLimits(breaker=BreakerPolicy(least=2, window=5 * MINUTE, pause=MINUTE))


def desk(ledger: Ledger) -> RetryLimitDesk:
    return RetryLimitDesk(limits=ledger.limits, trail=ledger.trail)


def views(ledger: Ledger) -> LimitViews:
    return LimitViews(limits=ledger.limits, now=ledger.clock.now)


def fail(ledger: Ledger, limits: RetryLimits, *executions: Execution) -> list[Recorded]:
    finishes = [
        Finish(execution=each, ran=FAILURE, verdict=IN_30_S, limits=limits) for each in executions
    ]
    return [*ledger.attempts.finish(finishes, now=ledger.now, node="ant")]  # type: ignore[list-item]


def test_what_remains_of_a_budget_can_be_read_and_is_never_below_0(ledger: Ledger) -> None:
    first, *rest = all_running(ledger, 5)
    assert views(ledger).budgets() == []

    fail(ledger, BUDGET, first)
    [one] = views(ledger).budgets()
    fail(ledger, BUDGET, *rest)
    ledger.clock.advance(SECOND)
    [spent] = views(ledger).budgets()

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
    [was] = views(ledger).breakers()

    answer = desk(ledger).reset("report 25", actor=ADA)

    assert (was.task, was.state, was.failed, was.succeeded) == ("report 25", "open", 2, 0)
    assert (was.opened_at, was.probe_at) == (ledger.now, ledger.now + MINUTE)
    assert answer == was
    assert views(ledger).breakers() == []
    assert fail(ledger, BREAKER, third) == [State.RETRYING]


def test_limits_that_were_idle_for_long_are_cleaned_up_and_no_others(ledger: Ledger) -> None:
    first, second = all_running(ledger, 2)
    fail(ledger, RetryLimits(budget=BUDGET.budget, breaker=BREAKER.breaker), first)
    ledger.clock.advance(IDLE_FOR)
    ledger.records.clean_up(now=ledger.now, retention=Retention())
    kept = len(views(ledger).budgets()), len(views(ledger).breakers())

    ledger.clock.advance(SECOND)
    ledger.records.clean_up(now=ledger.now, retention=Retention())

    assert kept == (1, 1)
    assert (views(ledger).budgets(), views(ledger).breakers()) == ([], [])
    assert fail(ledger, BUDGET, second) == [State.RETRYING]
