"""The names of tasks, queues and jobs files that a ledger knows, whoever runs them."""

from collections.abc import Collection
from typing import Protocol

from cronhare.domain.schedules.task import TaskRef


class NamesPort(Protocol):
    """Looks names up. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_names_contract.py does not assert is not promised.
    """

    def numbers_of(self, task: str) -> Collection[TaskRef]:
        """Find the numbers that schedules give a task of that name: by the newest of them."""
        ...

    def has_task(self, task: str, numbers: Collection[TaskRef]) -> bool:
        """Tell whether a schedule, an execution or a failure is of a task: see `is_meant`."""
        ...

    def has_queue(self, queue: str) -> bool:
        """Tell whether a schedule, an execution that has not ended, or a failure names a queue."""
        ...

    def has_type(self, type_: str) -> bool:
        """Tell whether a schedule or a failure is of a task of that type."""
        ...

    def sources(self) -> Collection[str]:
        """Name the jobs files that schedules are of."""
        ...

    def tasks_near(self, name: str, *, limit: int) -> Collection[str]:
        """Find names of tasks that may be meant by *name*, among those that schedules have.

        They are its neighbours in their order, at most *limit*, and all that there are, if these
        are no more than half of that.
        """
        ...
