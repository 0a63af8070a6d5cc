"""Events of schedules: what each says (S3.3, S3.5 and C24 in docs/compatibility.md)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs
import msgspec

from ..execution import UNFINISHED, Execution, State
from ..lifecycle.archive import Archived, self_pause
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
    """Something that happened to a schedule; *id* is the same whoever finds it, and how often."""

    id: str
    kind: str
    schedule: str
    scheduler_id: int
    execution_id: int | None = None
    at: datetime
    data: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def document(self) -> str:
        return msgspec.json.encode(
            {"id": self.id, "type": type_of(self.kind), "timestamp": self.at, "data": self.data}
        ).decode()


def bad_end(row: Archived) -> Event:
    kind = EventKind.FAILED if row.state is State.FAILED else EventKind.QUARANTINED
    pill = pill_record(row.execution_id, row.pill)
    reason, queue = bounded(row.failed_reason, LONGEST_REASON), bounded(row.queue)
    alert: dict[str, Any] = {
        "severity": "high",
        "message": f"Task permanently failed after {row.retry_count} retries",
        "task": describe_task(TaskRef(row.task_type, row.task_id), row.scheduler_id, row.params),
    }
    if kind is EventKind.QUARANTINED:  # S2.8
        job = f"Job {row.execution_id} in queue {queue}"
        alert |= {
            "severity": "critical",
            "title": "Job Quarantined",
            "message": f"{job} was quarantined: {reason}",
        }
        if row.pill is not None:
            alert |= {
                "title": "Poison Pill Job Quarantined",
                "message": f"{job} caused {row.pill.crash_count} worker crashes",
                "metadata": pill,
            }
    return Event(
        id=id_of(kind, row.id, row.failed_at),
        kind=kind,
        schedule=row.schedule_name,
        scheduler_id=row.scheduler_id,
        execution_id=row.execution_id or None,
        at=row.failed_at,
        data={
            "scheduledJobId": row.scheduler_id,
            "topic": _bounded(row.topic),
            "lastError": reason,
            "attempts": row.attempts,
            "metadata": {
                "schedule": bounded(row.schedule_name),
                "source": _bounded(row.source),
                "task": _bounded(row.task_name),
                "executionKey": bounded(row.execution_key),
                "executionId": row.execution_id or None,
                "failureId": row.id,
                "queue": queue,
                "retryCount": row.retry_count,
                "failedAt": row.failed_at,
                **({} if pill is None else {"poisonPillRecord": pill}),
                "alert": alert,
            },
        },
    )


def paused(row: Archived) -> Event:
    message = self_pause(row).text.removeprefix(f"Schedule {row.schedule_name} is paused: ")
    failed = bad_end(row)
    metadata = {name: it for name, it in failed.data["metadata"].items() if name != "alert"}
    return attrs.evolve(
        failed,
        id=id_of(EventKind.PAUSED, row.id, row.failed_at),
        kind=EventKind.PAUSED,
        data={
            **failed.data,
            "failures": row.paused_after,
            "alert": {"severity": "high", "title": "Schedule Paused", "message": message},
            "metadata": metadata,
        },
    )


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


def arrived(run: Execution) -> Event:
    """Describe the event of a due instant that was claimed to run; its time is the claim's."""
    payload = None if run.topic is None else _payload(run.params)
    return _of_run(EventKind.ARRIVED, run, run.executed_at, {"payload": payload})


def _payload(params: str) -> msgspec.Raw | None:
    """Give what a topic's listener is given, as it is; None if it is long, or no JSON."""
    if len(params) > LARGEST_PARAMS:
        return None
    try:
        msgspec.json.decode(params)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return msgspec.Raw(params.encode())


def skipped(run: Execution) -> Event:
    reason = bounded(run.last_error or "", LONGEST_REASON)
    said = {"reason": reason, "instants": run.missed}
    last = {"lastDueAt": run.last_due_at}
    return _of_run(EventKind.SKIPPED, run, run.finished_at or run.executed_at, said, **last)


def late(run: Execution, *, now: datetime) -> Event:
    lateness = ((run.started_at or now) - run.due_at).total_seconds()
    said = {"lateSeconds": round(lateness, 3), "hasBegun": run.started_at is not None}
    return _of_run(EventKind.LATE, run, now, said)


def recovered(run: Execution, *, failed_at: datetime, failed_execution_id: int | None) -> Event:
    said = {"failedAt": failed_at, "failedExecutionId": failed_execution_id}
    return _of_run(EventKind.RECOVERED, run, run.finished_at or run.executed_at, said)


def _of_run(
    kind: EventKind,
    run: Execution,
    at: datetime,
    said: Mapping[str, Any],
    **metadata: Any,  # noqa: ANN401 - JSON
) -> Event:
    return Event(
        id=id_of(kind, run.id, run.executed_at),
        kind=kind,
        schedule=run.schedule_name,
        scheduler_id=run.scheduler_id,
        execution_id=run.id,
        at=at,
        data={
            "scheduledJobId": run.scheduler_id,
            "topic": _bounded(run.topic),
            **said,
            "metadata": {
                "schedule": bounded(run.schedule_name),
                "source": _bounded(run.source),
                "task": _bounded(run.task_name),
                "executionKey": bounded(run.key),
                "executionId": run.id,
                "attempt": run.attempt,
                "queue": run.queue,
                "dueAt": run.due_at,
                "startedAt": run.started_at,
                "finishedAt": run.finished_at,
                **metadata,
            },
        },
    )


def bounded(text: str, most: int = LONGEST_NAME) -> str:
    return text[:most].encode(errors="replace").decode()


def _bounded(text: str | None) -> str | None:
    return None if text is None else bounded(text)


def id_of(kind: str, number: int, at: datetime) -> str:
    """Name an event; its time tells it from one of another ledger, or of one that was made anew."""
    return f"{kind}:{number}:{round(at.timestamp() * 1_000)}"
