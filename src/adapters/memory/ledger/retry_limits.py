"""The limits of retries, in memory."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget
from cronhare.domain.retries.limits import IDLE_FOR

from .execution_table import ExecutionTable
from .tables import MemoryLedger


@attrs.frozen
class MemoryEvidence:
    """Satisfies `Evidence`. The caller holds the ledger's lock."""

    _executions: ExecutionTable

    def successes(self, of: Execution, *, since: datetime, enough: int) -> int:
        found = sum(
            each.task == of.task and each.finished_at is not None and each.finished_at >= since
            for each in self._executions.in_states({State.SUCCEEDED})
        )
        return min(found, enough)

    def state_of(self, execution_id: int) -> State | None:
        found = self._executions.get(execution_id)
        return None if found is None else found.state


class MemoryLimitStore:
    """Satisfies `LimitStorePort`."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def budgets(self, *, now: datetime, limit: int) -> Sequence[Budget]:  # noqa: ARG002 - none is broken
        with self._ledger.lock:
            return sorted(self._ledger.budgets.values(), key=attrgetter("queue"))[:limit]

    def budget(self, queue: str, *, now: datetime) -> Budget | None:  # noqa: ARG002 - likewise
        with self._ledger.lock:
            return self._ledger.budgets.get(queue)

    def breakers(self, *, now: datetime, limit: int) -> Sequence[Breaker]:  # noqa: ARG002 - likewise
        with self._ledger.lock:
            return sorted(self._ledger.breakers.values(), key=attrgetter("task"))[:limit]

    def breaker(self, task: str, *, now: datetime) -> Breaker | None:  # noqa: ARG002 - likewise
        with self._ledger.lock:
            return self._ledger.breakers.get(task)

    def reset(self, task: str) -> bool:
        with self._ledger.lock:
            return self._ledger.breakers.pop(task, None) is not None


def forget_idle_limits(ledger: MemoryLedger, now: datetime) -> None:
    """Delete what has been idle for long. The caller holds the ledger's lock."""
    before, budgets, breakers = now - IDLE_FOR, ledger.budgets, ledger.breakers
    ledger.budgets = {
        key: one
        for key, one in budgets.items()
        if one.granted_at is None or one.granted_at >= before
    }
    ledger.breakers = {key: one for key, one in breakers.items() if one.last_at >= before}
