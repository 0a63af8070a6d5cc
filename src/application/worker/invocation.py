"""From an execution to its invocation: the task from the catalog, the params from the ledger."""

import logging

import attrs
import msgspec

from cronhare.domain.execution import Execution
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.catalog import Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.params import force_instant
from cronhare.domain.schedules.standalone import NO_DEADLINE, is_standalone
from cronhare.domain.schedules.task import Task, TaskType
from cronhare.domain.schedules.topic import NoListener, say_unheard
from cronhare.domain.texts.naming import called
from cronhare.ports.runner import AttemptResult, Captured, Invocation

from ..logs import say

log = logging.getLogger(__name__)


def find_task(execution: Execution, catalog: Catalog) -> Task | MissingTask:
    """Find the task of an execution among those of the worker's jobs file."""
    return catalog.find(
        execution.task,
        source=execution.source,
        name=execution.task_name,
        topic=execution.topic,
    )


def prepare(execution: Execution, task: Task | MissingTask) -> Invocation | AttemptResult:
    """Say what to run; or how the attempt ends if nothing can be run."""
    if isinstance(task, MissingTask):
        return _without_task(execution, task)
    try:
        params = msgspec.json.decode(execution.params)
    except (msgspec.DecodeError, RecursionError) as error:
        return _refused(f"the params are not JSON: {error}")
    timeout = NO_DEADLINE if is_standalone(execution.queue) else None
    if (limit := execution.timeout or timeout) is not None:
        task = attrs.evolve(task, timeout=limit)
    return Invocation(
        execution_id=execution.id,
        execution_key=execution.key,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        attempt=execution.attempt,
        deaths=execution.deaths,
        due_at=execution.due_at,
        fence=execution.fence,
        task=task,
        params=force_instant(params),
        owned_by=execution.owned_by,
        topic=execution.topic,
    )


def is_awaited(execution: Execution, missing: MissingTask) -> bool:
    """Tell whether a worker that has read its jobs file anew may have the task.

    A run that names a task of that file was applied with it. A number in a row, or in somebody's
    message, may be no task's at all.
    """
    kinds = {MissingKind.UNKNOWN, MissingKind.CONTRADICTED}
    return execution.task_name is not None and missing.kind in kinds


def _without_task(execution: Execution, missing: MissingTask) -> AttemptResult:
    """End the attempt: an event without a task succeeds, an unknown task fails for good.

    So does an event whose schedule says so; and another source's task: it is unknown whether a
    worker that has it ever gets the message.
    """
    may_be_unheard = execution.no_listener != NoListener.FAIL
    match missing.kind:
        case MissingKind.UNHEARD if may_be_unheard:
            return _unheard(execution)
        case MissingKind.UNKNOWN if may_be_unheard and execution.task.type == TaskType.EVENT:
            return _unheard(execution)
        case MissingKind.FOREIGN:
            return _refused(f"queue {execution.queue} led it to the wrong worker: {missing}")
    return _refused(str(missing))


def _unheard(execution: Execution) -> AttemptResult:
    text = say_unheard(called(execution.task, topic=execution.topic))
    say(log, logging.WARNING, "event.no-listener", text, execution)
    line = f"{text}\n"
    return AttemptResult(
        outcome=Outcome(ending=Ending.SUCCEEDED),
        stderr=Captured(head=line, bytes=len(line.encode())),
        unheard=True,
    )


def _refused(why: str) -> AttemptResult:
    error = TaskError(message=why, error_class=ErrorClass.PERMANENT)
    return AttemptResult(outcome=Outcome(ending=Ending.FAILED, error=error))
