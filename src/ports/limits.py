"""The limits of retries as people see them; attempts are held against them where they end."""

from collections.abc import Sequence
from typing import Protocol

from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget


class LimitStorePort(Protocol):
    """Reads and resets limits. Every method may raise `LedgerUnavailable`.

    A row that is broken is left out, and told: it holds nothing back.

    What tests/integration/test_limit_store_contract.py does not assert is not promised.
    """

    def budgets(self, *, limit: int) -> Sequence[Budget]:
        """List the budgets of the first *limit* queues, by their names.

        A queue has one since it was first asked for a retry.
        """
        ...

    def budget(self, queue: str) -> Budget | None:
        """Find the budget of a queue."""
        ...

    def breakers(self, *, limit: int) -> Sequence[Breaker]:
        """List the breakers of the first *limit* tasks, by the tasks.

        A task has one since an attempt of it failed under a breaker.
        """
        ...

    def breaker(self, task: str) -> Breaker | None:
        """Find the breaker of a task: `report 25`."""
        ...

    def reset(self, task: str) -> bool:
        """Close a task's breaker, and let it count anew; False if it has none."""
        ...
