"""From an execution to what is run: its task from the catalog, its params from the ledger."""

import logging

import attrs
import msgspec

from cronhare.domain.execution import Execution
from cronhare.domain.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.params import force_instant
from cronhare.domain.task import TaskType
from cronhare.ports.runner import Invocation, Ran

from .catalog import Catalog
from .logs import say

log = logging.getLogger(__name__)


def prepare(execution: Execution, catalog: Catalog) -> Invocation | Ran:
    """Say what to run; or how the attempt ends, where there is nothing that could be run."""
    task = catalog.find(execution.task)
    if task is None:
        return _without_task(execution, catalog)
    try:
        params = msgspec.json.decode(execution.params)
    except (msgspec.DecodeError, RecursionError) as error:
        return _refused(f"the params are not JSON: {error}")
    if execution.timeout is not None:
        task = attrs.evolve(task, timeout=execution.timeout)
    return Invocation(
        execution_id=execution.id,
        execution_key=execution.key,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        attempt=execution.attempt,
        deaths=execution.deaths,
        task=task,
        params=force_instant(params),
    )


def _without_task(execution: Execution, catalog: Catalog) -> Ran:
    """Nobody listens to an event: that is no failure (S3). An unknown task is one, for good."""
    if execution.task.type == TaskType.EVENT:
        text = f"Nobody listens to event {execution.task.id}: completed"
        say(log, logging.WARNING, "event.no-listener", text, execution)
        return Ran(outcome=Outcome(ending=Ending.SUCCEEDED))
    known = ", ".join(f"{task.name} ({task.ref})" for task in catalog) or "none"
    return _refused(f"this worker has no task {execution.task}; it has: {known}")


def _refused(why: str) -> Ran:
    error = TaskError(message=why, error_class=ErrorClass.PERMANENT)
    return Ran(outcome=Outcome(ending=Ending.FAILED, error=error))
