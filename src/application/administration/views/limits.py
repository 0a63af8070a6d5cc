"""The limits of retries: budgets of queues and circuit breakers of tasks."""

from datetime import datetime
from typing import Self

import attrs

from cronhare.domain.retries.breaker import Breaker, BreakerState
from cronhare.domain.retries.budget import Budget
from cronhare.domain.texts.words import called


@attrs.frozen(kw_only=True)
class BudgetView:
    """What is left of a queue's retry budget (S2.10 in docs/compatibility.md).

    *limit* retries are granted within any *window_seconds*, as whoever asked last has it;
    *remaining* of them can be granted now. *deferred_until* is the next free place where none can;
    *spent_since* is when retries began to be deferred, or to fail.
    """

    queue: str
    limit: int
    window_seconds: float
    remaining: int
    can_retry: bool
    deferred_until: datetime | None
    spent_since: datetime | None

    @classmethod
    def of(cls, budget: Budget, *, now: datetime) -> Self:
        """Show a budget as it is at *now*."""
        budget = budget.as_of(now)
        remaining = budget.remaining(now)
        return cls(
            queue=budget.queue,
            limit=budget.most,
            window_seconds=budget.window.total_seconds(),
            remaining=remaining,
            can_retry=remaining > 0,
            deferred_until=None if remaining else budget.free_at(now),
            spent_since=budget.spent_since,
        )


@attrs.frozen(kw_only=True)
class BreakerView:
    """The circuit breaker of a task (S0.12).

    *failures* are those that a closed one counts in its window. An open one has *opened_at*, with
    how many attempts had *failed* and *succeeded* then, and *probe_at*, from when one retry may be
    its probe; *probe* is the execution that is.
    """

    task: str
    task_name: str | None
    state: str
    failures: int
    window_seconds: float
    opened_at: datetime | None
    failed: int | None
    succeeded: int | None
    probe_at: datetime | None
    probe: int | None
    last_at: datetime

    @property
    def called(self) -> str:
        """What people call its task."""
        return called(self.task, name=self.task_name)

    @classmethod
    def of(cls, breaker: Breaker, *, now: datetime) -> Self:
        """Show a breaker as it is at *now*."""
        state = breaker.state(now)
        is_closed = state is BreakerState.CLOSED
        return cls(
            task=breaker.task,
            task_name=breaker.name,
            state=state.value,
            failures=breaker.failing_since(now - breaker.window),
            window_seconds=breaker.window.total_seconds(),
            opened_at=None if is_closed else breaker.opened_at,
            failed=None if is_closed else breaker.failed,
            succeeded=None if is_closed else breaker.succeeded,
            probe_at=None if is_closed else breaker.probe_at,
            probe=None if is_closed else breaker.probe,
            last_at=breaker.last_at,
        )
