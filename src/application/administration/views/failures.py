"""Failures, replays and statistics, as people see them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self

import attrs
import msgspec

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.orders import (
    BackfillOrder,
    Order,
    Replay,
    ReplayState,
    time_left,
)
from cronhare.domain.messages import PoisonPillRecord, TaskMessage, pill_key, pill_record
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.moments import iso_ms
from cronhare.domain.texts.words import called
from cronhare.ports.schedules import StoredSchedule
from cronhare.ports.statistics import By, ExecutionCount, FailureCount, Group

from .executions import AttemptView, OutputView
from .schedules import ScheduleView
from .values import ErrorView, json_value, same

#: The type of task that has a `report_id`.
REPORT: Final = "report"


class DeadLetterRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What failed for good or was quarantined, in the original's names (S2.5, C39)."""

    original_queue: str
    original_job_id: str
    original_job_name: str
    original_data: TaskMessage
    original_options: Any
    failure_reason: str
    failure_stack: str | None
    attempts_made: int
    failed_at: str
    poison_pill_record: PoisonPillRecord | None
    quarantined_at: str | None


@attrs.frozen(kw_only=True)
class FailureView:
    """A row of the archive; see `Archived`. *execution_id* is None where there is no execution.

    *report_id* is the task's number where it is a report; *description* and whose it is are of its
    schedule as it stands now, if that has the name it had. *poison_key* names a poison pill,
    *dead_letter* has all of it in the original's names (C39 in docs/compatibility.md).
    """

    id: int
    execution_id: int | None
    scheduler_id: int
    schedule_name: str
    execution_key: str
    kind: str
    task: TaskRef
    task_name: str | None
    source: str | None
    report_id: int | None
    description: str | None
    user_id: int | None
    group_id: int | None
    queue: str
    params: Any
    failed_at: datetime
    failed_reason: str
    error: ErrorView | None
    attempts: int
    retry_count: int
    resolved_at: datetime | None
    resolution: str | None
    note: str | None
    check_at: datetime | None
    crash_count: int | None
    first_crash_at: datetime | None
    options: Any
    topic: str | None
    paused_after: int | None
    poison_key: str | None
    dead_letter: DeadLetterRecord
    problem: str | None = None  # a row that cannot be read is told by the log, and is in no view

    @property
    def called(self) -> str:
        return called(self.task, name=self.task_name, topic=self.topic)

    @classmethod
    def of(cls, archived: Archived, stored: StoredSchedule | None = None) -> Self:
        task = TaskRef(archived.task_type, archived.task_id)
        error, pill = ErrorView.of(archived.error), archived.pill
        new = {
            "execution_id": archived.execution_id or None,
            "task": task,
            "report_id": task.id if task.type == REPORT else None,
            **_whose(stored),
            "params": json_value(archived.params),
            "error": error,
            "options": None if archived.options is None else json_value(archived.options),
            "poison_key": pill and pill_key(archived.queue, archived.execution_id),
            "dead_letter": _dead_letter(archived, error),
        }
        return cls(**same(cls, archived) | new)


@attrs.frozen(kw_only=True)
class FailureWithDetails:
    """A row of the archive, with what the ledger still has of its execution.

    *schedule* is as it is now: its description, its report, whose it is. *last_output* is what the
    last attempt wrote.
    """

    failure: FailureView
    schedule: ScheduleView | None
    attempts: Sequence[AttemptView]
    last_output: OutputView | None


@attrs.frozen(kw_only=True)
class QuarantineView:
    """What is quarantined, newest first, and how many *messages* the queue of quarantine has.

    There is one for each execution, and those that could not be read; None if the broker cannot be
    asked.
    """

    quarantined: Sequence[FailureView]
    queue: str
    messages: int | None


@attrs.frozen(kw_only=True)
class ReplayedView:
    """What became of *asked* failures: which *executions* run again, and by which *messages*.

    *resolved_before* counts those that needed no replay; *refused* says why others cannot be.
    """

    executions: Sequence[int]
    messages: Sequence[str]
    asked: int
    resolved_before: int
    refused: Mapping[int, str]


@attrs.frozen(kw_only=True)
class DiscardedView:
    """How many failures were resolved without a run, of those that were *asked* for."""

    failures: int
    asked: int
    resolved_before: int


def _whose(stored: StoredSchedule | None) -> dict[str, Any]:
    draft = None if stored is None else stored.draft
    names = ("description", "user_id", "group_id")
    return {name: None if draft is None else getattr(draft, name) for name in names}


def _dead_letter(row: Archived, error: ErrorView | None) -> DeadLetterRecord:
    failed_at = iso_ms(row.failed_at)
    return DeadLetterRecord(
        original_queue=row.queue,
        original_job_id=str(row.execution_id or row.execution_key),
        original_job_name=called(
            TaskRef(row.task_type, row.task_id), name=row.task_name, topic=row.topic
        ),
        original_data=TaskMessage(
            type=row.task_type,
            id=row.task_id,
            scheduler_id=row.scheduler_id,
            params_scheduler=row.params,
        ),
        original_options=None if row.options is None else json_value(row.options),
        failure_reason=row.failed_reason,
        failure_stack=None if error is None else error.stack,
        attempts_made=row.attempts,
        failed_at=failed_at,
        poison_pill_record=pill_record(row.execution_id, row.pill),
        quarantined_at=None if row.state is State.FAILED else failed_at,
    )


@attrs.frozen(kw_only=True)
class ReplayView:
    """A replay; see `Replay`, `ReplayOrder` and `ReplayProgress`. *kind* is replay or backfill.

    *which* has what was asked for of the failures; of a backfill `schedule`, `since` and `until`.
    *seconds_left* is by its pace so far.
    """

    id: int
    kind: str | None
    state: str
    reason: str | None
    waiting: int
    released: int
    failing: int
    succeeded: int
    failed: int
    refused: int
    left_out: int
    is_collected: bool
    seconds_left: int | None
    which: dict[str, Any] | None
    rate_per_second: float | None
    jitter: float | None
    key: str | None
    at_once: int | None
    canary: int | None
    stop_at: float | None
    attempts: int | None
    author: str | None
    created_at: datetime
    next_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, replay: Replay, *, now: datetime) -> Self:
        order, goes_on = replay.order, replay.state is ReplayState.ACTIVE
        new = {
            "kind": order.kind if isinstance(order, BackfillOrder) else "replay",
            "seconds_left": _seconds_left(replay, now) if goes_on else None,
            "next_at": replay.next_at if goes_on else None,
        }
        return cls(**same(cls, replay) | attrs.asdict(replay.progress) | _rules(order) | new)


def _seconds_left(replay: Replay, now: datetime) -> int | None:
    left = time_left(replay.order, replay.progress, elapsed=now - replay.created_at)
    return None if left is None else round(left.total_seconds())


def _rules(order: Order) -> dict[str, Any]:
    if isinstance(order, BackfillOrder):
        which = {name: getattr(order, name) for name in ("schedule", "since", "until")}
    else:
        asked = order.which.conditions.items()
        which = {name: value for name, value in asked if name != "unresolved"}
    at_once = None if order.key is None else order.at_once
    new = {"which": which, "rate_per_second": order.rate, "at_once": at_once}
    return same(ReplayView, order) | new


#: Digits behind the point of a mean or a rate.
DIGITS = 3


@attrs.frozen(kw_only=True)
class GroupView:
    """What rows have in common that were counted together; None for what they were not grouped by.

    *date* is a day of UTC, as the original has it.
    """

    date: str | None
    type: str | None
    task: str | None
    schedule_name: str | None
    queue: str | None


@attrs.frozen(kw_only=True)
class FailureCountView(GroupView):
    """Failures of a group; *failed_count* and *avg_retries* are the original's."""

    failed_reason: str | None
    error_class: str | None
    failed_count: int
    avg_retries: float
    quarantined: int
    unresolved: int
    first_at: datetime | None
    last_at: datetime | None

    @classmethod
    def of(cls, counted: FailureCount) -> Self:
        new = {
            "failed_reason": counted.group.get(By.REASON),
            "error_class": counted.group.get(By.CLASS),
            "failed_count": counted.failures,
            "avg_retries": round(counted.mean_retries, DIGITS),
        }
        return cls(**_shown(counted.group) | same(cls, counted) | new)


@attrs.frozen(kw_only=True)
class ExecutionCountView(GroupView):
    """Executions of a group; see `ExecutionCount`."""

    total: int
    succeeded: int
    failed: int
    retried: int
    retry_rate: float
    avg_attempts: float

    @classmethod
    def of(cls, counted: ExecutionCount) -> Self:
        new = {
            "retry_rate": round(counted.retry_rate, DIGITS),
            "avg_attempts": round(counted.mean_attempts, DIGITS),
        }
        return cls(**_shown(counted.group) | same(cls, counted) | new)


def _shown(group: Group) -> dict[str, str | None]:
    return {
        "date": group.get(By.DAY),
        "type": group.get(By.TYPE),
        "task": group.get(By.TASK),
        "schedule_name": group.get(By.SCHEDULE),
        "queue": group.get(By.QUEUE),
    }
