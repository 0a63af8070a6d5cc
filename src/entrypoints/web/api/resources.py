"""The operations of the API, one resource a module."""

from collections.abc import Iterator

from cronhare.domain.execution import State

from ..asking import Asker
from .alerts import Alerts
from .counts import Counts
from .executions import Executions
from .facts import Facts
from .failures import Failures
from .operations import Operation
from .replays import Replays
from .reports import Reports
from .scheduler_runs import SchedulerRuns
from .scheduler_switches import SchedulerSwitches
from .schedulers import Schedulers
from .work import Work


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
