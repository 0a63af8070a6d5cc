"""What the application enqueues in a test, and schedules that it puts, are in the test's ledger."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from cronhare.adapters.memory.broker import SilentBell
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef, assigned_number
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.python.client import Client
from cronhare.entrypoints.python.tasks import Call


class System(Protocol):
    """The system of a test."""

    @property
    def container(self) -> Container: ...

    def wait_for(self, execution_id: int) -> None: ...


class InTest(Client):
    """The client of all apps while a test runs, whose *system* begins when it is needed.

    Transactions of the application are of another database: what is enqueued in one is there at
    once, and stays after a rollback.
    """

    def __init__(self, system: Callable[[], System]) -> None:
        self._system = system

    @property
    def container(self) -> Container:  # type: ignore[override] # it is not set
        return self._system().container

    def part_of(self, on: object) -> Any:  # noqa: ANN401, ARG002 - as the base has it
        return None

    def waits_for(self, execution_id: int) -> None:
        self._system().wait_for(execution_id)

    def _make(self, calls: Sequence[Call[Any]]) -> Callable[[str], ScheduleDraft | None]:
        """Draft those of tasks whose code is elsewhere as well: a ledger would have them."""
        known, elsewhere = (
            super()._make(calls),
            {call.task.own_schedule: call.task for call in calls},
        )

        def make(name: str) -> ScheduleDraft | None:
            task = elsewhere[name]
            if task.is_here:
                return known(name)
            number = assigned_number(task.app.name, task.name)
            return ScheduleDraft(name=name, task=TaskRef("worker", number), task_name=task.name)

        return make


class NoBell(SilentBell):
    """Satisfies `LaterBellPort`: the reconciler finds what was enqueued."""

    def ring_once_there(self, ids: Collection[int]) -> None:
        """See `LaterBellPort.ring_once_there`."""
