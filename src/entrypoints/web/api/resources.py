"""The operations of the API, one resource a module."""

from collections.abc import Iterator

from cronhare.domain.execution import State

from ..asking import Asker
from .executions import Counts, Executions
from .facts import Alerts, Facts, Work
from .failures import Failures
from .operations import Operation
from .replays import Replays
from .reports import Reports
from .scheduler_actions import SchedulerRuns, SchedulerSwitches
from .schedulers import Schedulers


def routes(asker: Asker) -> Iterator[Operation]:
    """Make the operations."""
    yield from Schedulers(asker).operations()
    yield from SchedulerSwitches(asker).operations()
    yield from SchedulerRuns(asker).operations()
    yield from Reports(asker).operations()
    yield from Counts(asker).operations()  # before what has a number in their place
    yield from Executions(asker).operations()
    yield from Failures(asker).operations()
    yield from Failures(asker, kind=State.QUARANTINED).operations()
    yield from Replays(asker).operations()
    yield from Work(asker).operations()
    yield from Alerts(asker).operations()
    yield from Facts(asker).operations()
