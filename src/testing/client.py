"""What the application enqueues in a test, and schedules that it puts, are in the test's ledger."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from cronhare.adapters.memory.broker import SilentBell
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.python.client import Client


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


class NoBell(SilentBell):
    """Satisfies `LaterBellPort`: the reconciler finds what was enqueued."""

    def ring_once_there(self, ids: Collection[int]) -> None:
        """See `LaterBellPort.ring_once_there`."""
