"""Events of schedules: what each says (S3.3, S3.5 and C24 in docs/compatibility.md)."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import attrs
import msgspec

from ..execution import UNFINISHED, Execution, State
from ..lifecycle.archive import Archived
from ..messages import pill_record
from ..schedules.task import TaskRef
from .targets import EventKind, type_of

#: Characters of params and of an error that an event has; what is longer is left out, or cut.
LARGEST_PARAMS: Final = 8_192
LONGEST_REASON: Final = 4_096

#: Characters of a name.
LONGEST_NAME: Final = 255


#: States in which a run may have begun late: those to come, and ends that tell when it began. Of a
#: cancelled or skipped one nothing is late; a quarantined one is an event by itself.
MAY_BE_LATE: Final = UNFINISHED | {State.SUCCEEDED, State.FAILED}


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened to a schedule; *kind* is an `EventKind`, a reminder or a ping.

    *id* is the same whoever finds it, and how often.
    """

    id: str
    kind: str
    schedule: str
    scheduler_id: int
    execution_id: int | None
    at: datetime
    data: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def document(self) -> str:
        """The JSON that each target gets."""
        return msgspec.json.encode(
            {"id": self.id, "type": type_of(self.kind), "timestamp": self.at, "data": self.data}
        ).decode()


def bad_end(row: Archived) -> Event:
    """Describe the event of an execution that failed for good, or was quarantined."""
    kind = EventKind.FAILED if row.state is State.FAILED else EventKind.QUARANTINED
    record = pill_record(row.execution_id, row.pill)
    return Event(
        id=id_of(kind, row.id, row.failed_at),
        kind=kind,
        schedule=row.schedule_name,
        scheduler_id=row.scheduler_id,
        execution_id=row.execution_id or None,
        at=row.failed_at,
        data={
            "scheduledJobId": row.scheduler_id,
            "topic": None if row.topic is None else bounded(row.topic),
            "lastError": bounded(row.failed_reason, LONGEST_REASON),
            "attempts": row.attempts,
            "metadata": {
                **_place(row.schedule_name, row.source, row.task_name, row.execution_key),
                "executionId": row.execution_id or None,
                "failureId": row.id,
                "queue": bounded(row.queue),
                "retryCount": row.retry_count,
                "failedAt": row.failed_at,
                **({} if record is None else {"poisonPillRecord": record}),
                "alert": _alert(row),
            },
        },
    )


def _alert(row: Archived) -> dict[str, Any]:
    """Describe the alert: `{severity, message, task}` (S0.9), that of a pill as S2.8 has it."""
    task = describe_task(TaskRef(row.task_type, row.task_id), row.scheduler_id, row.params)
    if row.state is State.FAILED:
        retries = f"Task permanently failed after {row.retry_count} retries"
        return {"severity": "high", "message": retries, "task": task}
    job = f"Job {row.execution_id} in queue {bounded(row.queue)}"
    alert: dict[str, Any] = {"severity": "critical", "task": task}
    if row.pill is None:
        why = bounded(row.failed_reason, LONGEST_REASON)
        return {**alert, "title": "Job Quarantined", "message": f"{job} was quarantined: {why}"}
    return {
        **alert,
        "title": "Poison Pill Job Quarantined",
        "message": f"{job} caused {row.pill.crash_count} worker crashes",
        "metadata": pill_record(row.execution_id, row.pill),
    }


def describe_task(task: TaskRef, scheduler_id: int, params: str) -> dict[str, Any]:
    """Describe a task as its message does (S1.8); long params are left out."""
    return {
        "type": bounded(task.type),
        "id": task.id,
        "scheduler_id": scheduler_id,
        "params_scheduler": bounded(params, LARGEST_PARAMS)
        if len(params) <= LARGEST_PARAMS
        else None,
    }


def arrived(execution: Execution) -> Event:
    """Describe the event of a due instant that was claimed to run, whatever comes of it.

    Its time is the claim's: an instant that is caught up may be older than events are told.
    """
    payload = None if execution.topic is None else _payload(execution.params)
    return _of_run(
        EventKind.ARRIVED, execution, at=execution.executed_at, said={"payload": payload}
    )


def _payload(params: str) -> msgspec.Raw | None:
    """Give what a topic's listener is given, as it is; None if it is long, or no JSON."""
    if len(params) > LARGEST_PARAMS:
        return None
    try:
        msgspec.json.decode(params)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return msgspec.Raw(params.encode())


def skipped(execution: Execution) -> Event:
    """Describe the event of instants that did not run."""
    return _of_run(
        EventKind.SKIPPED,
        execution,
        at=execution.finished_at or execution.executed_at,
        said={
            "reason": bounded(execution.last_error or "", LONGEST_REASON),
            "instants": execution.missed,
        },
        metadata={"lastDueAt": execution.last_due_at},
    )


def late(execution: Execution, *, now: datetime) -> Event:
    """Describe the event of a run that began later than it may, or has not begun yet."""
    lateness = (execution.started_at or now) - execution.due_at
    return _of_run(
        EventKind.LATE,
        execution,
        at=now,
        said={
            "lateSeconds": round(lateness.total_seconds(), 3),
            "hasBegun": execution.started_at is not None,
        },
    )


def recovered(
    execution: Execution, *, failed_at: datetime, failed_execution_id: int | None
) -> Event:
    """Describe the event of a schedule that has succeeded after a bad end."""
    return _of_run(
        EventKind.RECOVERED,
        execution,
        at=execution.finished_at or execution.executed_at,
        said={
            "failedAt": failed_at,
            "failedExecutionId": failed_execution_id,
        },
    )


def _of_run(
    kind: EventKind,
    execution: Execution,
    *,
    at: datetime,
    said: Mapping[str, Any],
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> Event:
    """Describe an event of an execution: what each says of it, and what one of its kind *said*."""
    return Event(
        id=id_of(kind, execution.id, execution.executed_at),
        kind=kind,
        schedule=execution.schedule_name,
        scheduler_id=execution.scheduler_id,
        execution_id=execution.id,
        at=at,
        data={
            "scheduledJobId": execution.scheduler_id,
            "topic": None if execution.topic is None else bounded(execution.topic),
            **said,
            "metadata": {**_metadata(execution), **metadata},
        },
    )


def _metadata(execution: Execution) -> dict[str, Any]:
    one = execution
    return {
        **_place(one.schedule_name, one.source, one.task_name, one.key),
        "executionId": one.id,
        "attempt": one.attempt,
        "queue": one.queue,
        "dueAt": one.due_at,
        "startedAt": one.started_at,
        "finishedAt": one.finished_at,
    }


def _place(schedule: str, source: str | None, task: str | None, key: str) -> dict[str, Any]:
    given = {"schedule": schedule, "source": source, "task": task, "executionKey": key}
    return {name: None if text is None else bounded(text) for name, text in given.items()}


def bounded(text: str, most: int = LONGEST_NAME) -> str:
    """Cut a text that a person may have written, and replace what is no character."""
    return text[:most].encode(errors="replace").decode()


def id_of(kind: str, number: int, at: datetime) -> str:
    """Name an event; its time tells it from one of another ledger, or of one that was made anew."""
    return f"{kind}:{number}:{round(at.timestamp() * 1_000)}"
