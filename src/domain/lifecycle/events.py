"""Events of schedules, and what becomes of telling them.

S3.3, S3.5 and C24 in docs/compatibility.md are about them.

An event is a JSON document that each target gets the same. Its id tells a target that has heard it
before: telling is repeated until it is known to have been heard.
"""

import enum
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from ..execution import UNFINISHED, Execution, State
from ..messages.messages import pill_record
from ..retries.backoff import exponential
from ..schedules.notify import EventKind
from ..schedules.task import TaskRef
from ..texts.moments import say_moment
from .archive import Archived

#: Who has not heard of an event after so many tries, or so long, is told no more.
MOST_TRIES: Final = 8
EXPIRES_AFTER: Final = timedelta(hours=24)

#: Between two tries: 10 s, 30 s, 90 s … up to an hour; `wait_after` has the sum.
FIRST_WAIT: Final = timedelta(seconds=10)
LONGEST_WAIT: Final = timedelta(hours=1)
GROWTH: Final = 3

#: No wait and no lease of an event reaches so far: a clock was ahead that set what does.
FARTHEST: Final = 2 * LONGEST_WAIT

#: Characters of params and of an error that an event has; what is longer is left out, or cut.
LARGEST_PARAMS: Final = 8_192
LONGEST_REASON: Final = 4_096

#: Bytes of an event: what a person wrote into a row may be longer, and is not sent.
LARGEST_EVENT: Final = 256 * 1024

#: How the key of a recovery begins that is expected; the bad end's follows.
_EXPECTED: Final = "expected:"

#: No kind of event that a target asks for: a task names the targets of a reminder.
_REMINDER: Final = "reminder"

#: Characters of a name.
LONGEST_NAME: Final = 255


#: States in which a run may have begun late: those to come, and ends that tell when it began. Of a
#: cancelled or skipped one nothing is late; a quarantined one is an event by itself.
MAY_BE_LATE: Final = UNFINISHED | {State.SUCCEEDED, State.FAILED}


class OutboxState(enum.StrEnum):
    """What became of telling one target of one event."""

    EXPECTED = "expected"  # a recovery, once the schedule succeeds again
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given-up"
    EXPIRED = "expired"


#: Who was to be told and was not, and is told no more.
UNTOLD: Final = frozenset({OutboxState.GIVEN_UP, OutboxState.EXPIRED})


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened to a schedule. *id* is the same whoever finds it, and how often."""

    id: str
    kind: EventKind
    schedule: str
    scheduler_id: int
    execution_id: int | None
    at: datetime
    data: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)

    @property
    def document(self) -> str:
        """The JSON that each target gets."""
        return msgspec.json.encode(
            {"id": self.id, "type": self.kind.type, "timestamp": self.at, "data": self.data}
        ).decode()


@attrs.frozen(kw_only=True)
class OutboxRow:
    """One event for one target, as a row of the outbox; *tries* counts those that have begun."""

    id: int = 0
    event_key: str
    event: str
    target: str
    source: str
    scheduler_id: int
    schedule_name: str
    execution_id: int | None
    occurred_at: datetime
    payload: str = attrs.field(repr=False)
    state: str = OutboxState.WAITING.value
    tries: int = 0
    next_try_at: datetime | None = None
    owner: str | None = None
    finished_at: datetime | None = None
    last_error: str | None = None

    @classmethod
    def of(cls, event: Event, target: str, *, source: str, now: datetime) -> "OutboxRow":
        """Tell a target of an event from *now* on."""
        return cls(
            event_key=event.id,
            event=event.kind.value,
            target=target,
            source=source,
            scheduler_id=event.scheduler_id,
            schedule_name=_bounded(event.schedule),
            execution_id=event.execution_id,
            occurred_at=event.at,
            payload=event.document,
            next_try_at=now,
        )

    @classmethod
    def expecting(cls, failed: Event, target: str, *, source: str, now: datetime) -> "OutboxRow":
        """Note that a target wants to know when a schedule that has failed succeeds again."""
        event = attrs.evolve(failed, id=f"{_EXPECTED}{failed.id}", kind=EventKind.RECOVERED)
        row = cls.of(event, target, source=source, now=now)
        return attrs.evolve(row, state=OutboxState.EXPECTED.value, payload="")

    @property
    def place(self) -> "Place":
        """Whose recovery it may be, and who is told."""
        return self.scheduler_id, self.target


#: A schedule's number, and a target.
Place: TypeAlias = tuple[int, str]


def expected_after(event_key: str) -> str:
    """Give the key of the bad end after which a recovery is expected."""
    return event_key.removeprefix(_EXPECTED)


def without_repeats(
    wanted: Sequence[OutboxRow], *, once: Collection[str], known: Mapping[Place, str]
) -> Sequence[OutboxRow]:
    """Leave out bad ends that targets told *once* know of already: the schedule has not recovered.

    *known* are the keys of the events that such targets were told last, or will be; the recoveries
    that they expect get them. A quarantine is news to a target that knows of a failure alone.
    """
    last, left = dict(known), list[OutboxRow]()
    for row in sorted(wanted, key=lambda each: each.occurred_at):
        told = last.get(row.place, "")
        if row.state == OutboxState.EXPECTED:
            left.append(attrs.evolve(row, event_key=f"{_EXPECTED}{told}") if told else row)
        elif (
            row.target not in once
            or not told
            or (row.event != told.partition(":")[0] and row.event != EventKind.FAILED)
        ):
            left.append(row)
            if row.target in once:
                last[row.place] = row.event_key
    return left


def wait_after(tries: int, *, asked: timedelta | None = None) -> timedelta | None:
    """Say how long to wait after so many tries, all in vain; None if it is given up.

    *asked* is what the target asked for, which counts where it is longer.

    >>> [str(wait_after(tries)) for tries in (1, 2, 3, 7, 8)]
    ['0:00:10', '0:00:30', '0:01:30', '1:00:00', 'None']
    >>> waits = [wait_after(tries) or timedelta(0) for tries in range(1, MOST_TRIES)]
    >>> str(sum(waits, timedelta(0)))
    '2:00:40'
    """
    if tries >= MOST_TRIES:
        return None
    own = exponential(FIRST_WAIT, tries - 1, LONGEST_WAIT, multiplier=GROWTH)
    return own if asked is None else min(max(own, asked), LONGEST_WAIT)


def say_next_try(at: datetime, now: datetime) -> str:
    """Say when a target is tried again: it may have to wait for its turn, behind its others.

    >>> say_next_try(datetime(2026, 3, 2, 11, 0), datetime(2026, 3, 2, 12, 0))
    'the next try is due'
    """
    return f"next try at {say_moment(at)}" if at > now else "the next try is due"


def bad_end(row: Archived) -> Event:
    """Describe the event of an execution that failed for good, or was quarantined."""
    kind = EventKind.FAILED if row.state is State.FAILED else EventKind.QUARANTINED
    record = pill_record(row.execution_id, row.pill)
    return Event(
        id=_id(kind, row.id, row.failed_at),
        kind=kind,
        schedule=row.schedule_name,
        scheduler_id=row.scheduler_id,
        execution_id=row.execution_id or None,
        at=row.failed_at,
        data={
            "scheduledJobId": row.scheduler_id,
            "topic": None if row.topic is None else _bounded(row.topic),
            "lastError": _bounded(row.failed_reason, LONGEST_REASON),
            "attempts": row.attempts,
            "metadata": {
                **_place(row.schedule_name, row.source, row.task_name, row.execution_key),
                "executionId": row.execution_id or None,
                "failureId": row.id,
                "queue": _bounded(row.queue),
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
    job = f"Job {row.execution_id} in queue {_bounded(row.queue)}"
    alert: dict[str, Any] = {"severity": "critical", "task": task}
    if row.pill is None:
        why = _bounded(row.failed_reason, LONGEST_REASON)
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
        "type": _bounded(task.type),
        "id": task.id,
        "scheduler_id": scheduler_id,
        "params_scheduler": _bounded(params, LARGEST_PARAMS)
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
            "reason": _bounded(execution.last_error or "", LONGEST_REASON),
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


def recovered(expected: OutboxRow, execution: Execution) -> Event:
    """Describe the event of a schedule that has succeeded after a bad end."""
    return _of_run(
        EventKind.RECOVERED,
        execution,
        at=execution.finished_at or execution.executed_at,
        said={
            "failedAt": expected.occurred_at,
            "failedExecutionId": expected.execution_id,
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
        id=_id(kind, execution.id, execution.executed_at),
        kind=kind,
        schedule=execution.schedule_name,
        scheduler_id=execution.scheduler_id,
        execution_id=execution.id,
        at=at,
        data={
            "scheduledJobId": execution.scheduler_id,
            "topic": None if execution.topic is None else _bounded(execution.topic),
            **said,
            "metadata": {**_metadata(execution), **metadata},
        },
    )


def reminder(
    *,
    target: str,
    schedule: str,
    scheduler_id: int,
    execution_id: int,
    attempt: int,
    due_at: datetime,
    subject: str,
    text: str,
) -> OutboxRow:
    """Describe a message at its time, for a target; it stands in no outbox, as its run is a row.

    Its id is the same in each attempt of the run, so that a target can know a repetition.
    """
    id_ = _id(_REMINDER, execution_id, due_at)
    place = {"schedule": _bounded(schedule), "executionId": execution_id, "dueAt": due_at}
    said = {"subject": subject, "text": text, "attempt": attempt, "metadata": place}
    data = {"scheduledJobId": scheduler_id, **said}
    event = {"id": id_, "type": f"schedule.{_REMINDER}", "timestamp": due_at, "data": data}
    return OutboxRow(
        event_key=id_,
        event=_REMINDER,
        target=target,
        source="",
        scheduler_id=scheduler_id,
        schedule_name=_bounded(schedule),
        execution_id=execution_id,
        occurred_at=due_at,
        payload=msgspec.json.encode(event).decode(),
        tries=attempt,
    )


def trial(target: str, *, now: datetime, id_: str) -> Event:
    """Describe an event that tells a target nothing but that it can be reached."""
    return Event(
        id=f"test:{id_}",
        kind=EventKind.FAILED,
        schedule="test",
        scheduler_id=0,
        execution_id=None,
        at=now,
        data={
            "scheduledJobId": 0,
            "topic": None,
            "lastError": f"This is a test of {target}: nothing has failed",
            "attempts": 0,
            "metadata": {"test": True},
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
    return {name: None if text is None else _bounded(text) for name, text in given.items()}


def _bounded(text: str, most: int = LONGEST_NAME) -> str:
    """Cut a text that a person may have written, and replace what is no character."""
    return text[:most].encode(errors="replace").decode()


def _id(kind: str, number: int, at: datetime) -> str:
    """Name an event; its time tells it from one of another ledger, or of one that was made anew."""
    return f"{kind}:{number}:{round(at.timestamp() * 1_000)}"
