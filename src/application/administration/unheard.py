"""What `explain` says of an event that was completed because nobody listened to it."""

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.schedules.catalog import say_unheard
from cronhare.domain.schedules.task import TaskType
from cronhare.domain.texts.words import called
from cronhare.ports.records import RecordsPort

from .explain import Explanation


def unless_unheard(found: Explanation, records: RecordsPort) -> Explanation:
    """Correct the explanation of a success if it was an event, and nothing was run."""
    execution = found.execution
    if execution is None or not _was_unheard(execution, found, records):
        return found
    name = called(execution.task, topic=execution.topic)
    return attrs.evolve(
        found,
        ran=False,
        answer=f"It was completed without being run: nobody listened to {name}",
        because=(*found.because, '`no_listener = "fail"` of its schedule lets it fail instead.'),
    )


def _was_unheard(execution: Execution, found: Explanation, records: RecordsPort) -> bool:
    is_event = execution.topic is not None or execution.task.type == TaskType.EVENT
    if execution.state is not State.SUCCEEDED or not is_event or not found.attempts:
        return False
    last = found.attempts[-1]
    if last.pid is not None:
        return False
    said = say_unheard(called(execution.task, topic=execution.topic))
    outputs = records.output(execution.id, since=last.attempt)
    return any(output.stderr.head.rstrip() == said for output in outputs)
