"""The limits of retries: what is left of budgets, which breakers are open, whom they keep back."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Final

import attrs

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.retries.limits import ACTIVATED, Breaker, BreakerState, say_budget
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import called
from cronhare.ports.records import LimitStorePort

from ..views.work import BreakerView, BudgetView

#: So many are listed at most, of each kind.
MOST_LISTED: Final = 1_000


@attrs.frozen(kw_only=True)
class LimitViews:
    """Shows limits. *now* is the ledger's clock."""

    _limits: LimitStorePort
    _now: Callable[[], datetime]

    def budgets(self) -> Sequence[BudgetView]:
        """List the budgets of the queues that were asked for a retry of late."""
        now = self._now()
        found = self._limits.budgets(limit=MOST_LISTED)
        return [BudgetView.of(budget, now=now) for budget in found]

    def breakers(self) -> Sequence[BreakerView]:
        """List the breakers of the tasks of which an attempt failed of late."""
        now = self._now()
        found = self._limits.breakers(limit=MOST_LISTED)
        return [BreakerView.of(breaker, now=now) for breaker in found]

    def about(self, execution: Execution) -> Iterator[str]:
        """Say which limits keep an execution from another retry, now or in the end."""
        now = self._now()
        goes_on = execution.state in UNFINISHED
        if goes_on and (budget := self._limits.budget(execution.queue)) is not None:
            budget = budget.as_of(now)
            remaining = budget.remaining(now)
            left = (
                f"has {remaining:,} left"
                if remaining
                else f"is spent until {say_moment(budget.free_at(now))}"
            )
            name = say_budget(budget)
            yield f"{name[0].upper()}{name[1:]} {left}."
        was_let_fail = (execution.state, execution.last_error) == (State.FAILED, ACTIVATED)
        if not goes_on and not was_let_fail:
            return
        breaker = self._limits.breaker(str(execution.task))
        if breaker is not None and breaker.state(now) is not BreakerState.CLOSED:
            yield _said_open(breaker, now)
        if was_let_fail:
            task = quote(called(execution.task, name=execution.task_name, topic=execution.topic))
            again = f"cronhare failed replay --task {task} --reason {quote(ACTIVATED)}"
            yield f"Once its cause is gone, `{again}` runs what the breaker let fail."


def _said_open(breaker: Breaker, now: datetime) -> str:
    reset = f"`cronhare breakers reset {quote(breaker.said)}` closes it"
    if breaker.state(now) is BreakerState.HALF_OPEN:
        probe = f"execution {breaker.probe}" if breaker.probe else "the next retry"
        return f"The circuit breaker of {breaker.said} is half open: {probe} is its probe; {reset}."
    until = say_moment(breaker.probe_at) if breaker.probe_at else "a reset"
    return (
        f"The circuit breaker of {breaker.said} is open until {until}: what fails before is not "
        f"tried again; {reset}."
    )
