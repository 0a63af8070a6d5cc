"""The operations of the API; each class has those of its paths."""

from collections.abc import Iterator

from ..asking import Asker
from ..operations import Operation, operations_of
from .executions import Counts, Executions
from .facts import Alerts, Facts, Work
from .failures import Failures, Quarantine, Replays
from .scheduler_actions import SchedulerRuns, SchedulerSwitches
from .schedulers import Schedulers
from .tasks import Reports, Tasks

#: Counts come before what has a number in their place, and names before what may follow an id.
_RESOURCES = (
    Schedulers, SchedulerSwitches, SchedulerRuns, Tasks, Reports, Counts, Executions, Failures,
    Quarantine, Replays, Work, Alerts, Facts,
)  # fmt: skip


def operations(asker: Asker) -> Iterator[Operation]:
    for resource in _RESOURCES:
        yield from operations_of(resource(asker))
