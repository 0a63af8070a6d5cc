"""The operations of the API, one resource a module."""

from collections.abc import Iterator

from ..asking import Asker
from .operations import Operation
from .reports import Reports
from .scheduler_runs import SchedulerRuns
from .scheduler_switches import SchedulerSwitches
from .schedulers import Schedulers


def routes(asker: Asker) -> Iterator[Operation]:
    """Make the operations."""
    yield from Schedulers(asker).operations()
    yield from SchedulerSwitches(asker).operations()
    yield from SchedulerRuns(asker).operations()
    yield from Reports(asker).operations()
