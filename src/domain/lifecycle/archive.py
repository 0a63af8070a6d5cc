"""The archive: what failed for good or was quarantined, until a person removes it."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs
import msgspec

from ..execution import REPLAYABLE, STARTABLE, Execution, State
from ..messages import (
    SIGNED,
    AttemptRef,
    FailedMessage,
    Signer,
    Unreadable,
    fault_of_carried,
    fault_of_foreign,
    fault_of_signature,
    ticket_of,
)
from ..reading import Fault, Invalid
from ..retries.limits import Changed, LimitChange
from ..retries.outcome import Ending, ErrorClass, PoisonPill, TaskError
from ..retries.policy import write_policy
from ..retries.retry import Fail, Quarantine
from ..schedules.keys import reported_key
from ..schedules.skips import say_failures
from ..schedules.task import TaskRef
from ..texts.moments import read_iso
from ..texts.printable import echo
from ..topology import MAIN_QUEUE
from .transitions import begin, end, state_after

#: Bytes: a whole task message, and room for a long reason.
LARGEST_FAILED = 1024 * 1024


@attrs.frozen(kw_only=True)
class Failure:
    """A failed message, decoded.

    Without a *ticket* another program published the task; *key* then names its run. *proven* says
    that its sender had the message of that ticket, which one of our keys signed. *failed_at* is
    None if the message has no readable time.
    """

    message: FailedMessage
    failed_at: datetime | None
    key: str
    ticket: AttemptRef | None
    proven: bool = False

    def judge(
        self, execution: Execution | None, *, is_archived: Callable[[], bool]
    ) -> "Execution | Unproven | None":
        """Say whether the *execution* that the ticket names ends by this message.

        Answers the execution if it does; None if it has failed with that attempt already, or if
        that *is_archived*: it may have been replayed since, or cleaned up.

        The program that an execution was handed over to may say that it failed. For one that waits
        here for that attempt the message has to be *proven*: anybody could have sent it.
        """
        assert self.ticket is not None, "there is nothing to be judged"
        if execution is not None and execution.scheduler_id != self.message.scheduler_id:
            execution = None  # of another schedule: the ticket cannot name it
        if execution is not None and execution.attempt == self.ticket.attempt:
            if execution.state is State.HANDED_OVER or (
                self.proven and execution.state in STARTABLE
            ):
                return execution
            if execution.state in REPLAYABLE:
                return None
        if is_archived():
            return None
        return Unproven(self.ticket, None if execution is None else execution.state)

    @property
    def run(self) -> dict[str, Any]:
        message = self.message
        return {
            "key": self.key,
            "task": TaskRef(message.type, message.id),
            "params": message.params_scheduler,
            "attempt": message.retry_count + 1,
        }


@attrs.frozen
class Unproven:
    """A failure of *ticket* that is not believed; *state* is None if there is no such execution."""

    ticket: AttemptRef
    state: State | None


def read_failed(body: bytes, headers: Mapping[str, object], signer: Signer) -> Failure | Unreadable:
    if len(body) > LARGEST_FAILED:
        return Unreadable(f"the body has {len(body)} bytes, {LARGEST_FAILED} are allowed")
    try:
        message = msgspec.json.decode(body, type=FailedMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unreadable(f"the body is not a failed message: {error}")
    ticket, task = ticket_of(headers), message.task_body()
    fault = fault_of_carried(message) if ticket else fault_of_foreign(message)
    if fault := fault or fault_of_signature(task, headers, signer):
        return Unreadable(fault)
    return Failure(
        message=message,
        failed_at=_moment(message.failed_at),
        key=reported_key(body),
        ticket=ticket,
        proven=signer.holds(task, headers, of=SIGNED),
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = read_iso(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def fail_elsewhere(execution: Execution, failure: Failure, *, now: datetime) -> Execution:
    deaths, verdict = failure.message.retry_count, Fail(failure.message.failed_reason)
    running = begin(execution, deaths=deaths, node="", lease_until=now, now=now)
    return end(running, verdict, Ending.FAILED, now=now)


@attrs.frozen(kw_only=True)
class Archived:
    """A task that failed for good.

    *execution_id* is 0 where another program's worker failed a task of an unknown schedule: it
    cannot be replayed. *kind* is `failed` or `quarantined`. *resolution* is None until it is
    `replayed` or `discarded`. *check_at* says since when its message may be in no queue; None once
    it is, or if it needs none. It is quarantined for its last *crash_count* crashes, from
    *first_crash_at* to the end; both are None for what is no poison pill. *options* is JSON: its
    policy, and its timeout. *topic* is what it was an event of. *event_at* is from when on those
    who want to know of it are told; None once that is taken care of. With it the schedule was
    paused, after *paused_after* failures in a row; None if it was not.
    """

    id: int
    execution_id: int
    scheduler_id: int
    schedule_name: str
    execution_key: str
    kind: str
    task_type: str
    task_id: int
    queue: str
    params: str
    failed_at: datetime
    failed_reason: str
    error: str | None
    attempts: int
    retry_count: int
    resolved_at: datetime | None = None
    resolution: str | None = None
    note: str | None = None
    source: str | None = None
    task_name: str | None = None
    check_at: datetime | None = None
    crash_count: int | None = None
    first_crash_at: datetime | None = None
    options: str | None = None
    topic: str | None = None
    event_at: datetime | None = None
    paused_after: int | None = None

    @property
    def ticket(self) -> AttemptRef:
        return AttemptRef(execution_id=self.execution_id, attempt=self.attempts)

    @property
    def pill(self) -> PoisonPill | None:
        if not self.crash_count or self.first_crash_at is None:
            return None
        return PoisonPill(self.crash_count, self.first_crash_at, self.failed_at)

    @property
    def state(self) -> State:
        """The state in which it ended; an unknown *kind* counts as quarantined, and is not run."""
        return State.FAILED if self.kind == State.FAILED else State.QUARANTINED


def archive(
    execution: Execution,
    verdict: Fail | Quarantine,
    error: TaskError | None,
    at: datetime,
    *,
    check_at: datetime | None = None,
) -> Archived:
    """Describe the row of an execution that ended *at* with *verdict*; the ledger gives its id."""
    crashes = verdict.crashes if isinstance(verdict, Quarantine) else ()
    retry, timeout = execution.retry, execution.timeout
    options = {
        "retry": None if retry is None else write_policy(retry),
        "timeout_seconds": None if timeout is None else timeout.total_seconds(),
    }
    return Archived(
        id=0,
        execution_id=execution.id,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        execution_key=execution.key,
        kind=state_after(verdict).value,
        task_type=execution.task.type,
        task_id=execution.task.id,
        queue=execution.queue,
        params=execution.params,
        failed_at=at,
        failed_reason=verdict.reason,
        error=None if error is None else error.as_json(),
        attempts=execution.attempt,
        retry_count=execution.deaths,
        source=execution.source,
        task_name=execution.task_name,
        check_at=check_at,
        crash_count=len(crashes) or None,
        first_crash_at=crashes[0].at if crashes else None,
        options=msgspec.json.encode(options).decode(),
        topic=execution.topic,
        event_at=at,
    )


def self_pause(last: Archived) -> LimitChange:
    name, why = last.schedule_name, say_failures(last.paused_after or 0, last.failed_reason)
    text = f"Schedule {name} is paused: {why}. To end that: cronhare schedules resume {name}"
    return LimitChange(Changed.SCHEDULE_PAUSED, name, text)


def archive_report(failure: Failure, now: datetime) -> Archived:
    """Describe the row of a reported failure that has no execution; the ledger gives its id."""
    message = failure.message
    return Archived(
        id=0,
        execution_id=0,
        scheduler_id=message.scheduler_id,
        schedule_name=f"#{message.scheduler_id}",
        execution_key=failure.key,
        kind=State.FAILED.value,
        task_type=message.type,
        task_id=message.id,
        queue=MAIN_QUEUE,
        params=message.params_scheduler,
        failed_at=failure.failed_at or now,
        failed_reason=message.failed_reason,
        error=None,
        attempts=message.retry_count + 1,
        retry_count=message.retry_count,
        event_at=now,
    )


#: The most characters of each.
_LENGTHS: Final = {
    **dict.fromkeys(("schedule", "task", "type", "queue", "code"), 255),
    "reason": 1_000,
}

#: What no column holds; a lone surrogate comes of an argument that is no UTF-8.
_UNWRITABLE: Final = re.compile("[\0\ud800-\udfff]")


@attrs.frozen(kw_only=True)
class FailureFilter:
    """Rows of the archive that have all of this; None stands for any, and none left out is all.

    *task* is a task's name, or its reference (`report 25`); *numbers* are those that a task of that
    name has, for rows without a name, and follow from it. *reason* is a part of `failed_reason`,
    or of its error's message, letter for letter. *code* is the error's (`ETIMEDOUT`). It failed at
    *since* or later, and before *until*. *kind* is failed or quarantined. Resolved rows are left
    out if *unresolved*.

    Raises:
        Invalid: with all faults at once.
    """

    execution_id: int | None = None
    schedule: str | None = None
    task: str | None = None
    numbers: tuple[TaskRef, ...] = attrs.field(default=(), eq=False)
    type: str | None = None
    queue: str | None = None
    reason: str | None = None
    error_class: ErrorClass | None = None
    code: str | None = None
    kind: State | None = None
    since: datetime | None = None
    until: datetime | None = None
    unresolved: bool = True

    def __attrs_post_init__(self) -> None:
        if faults := [*self._faults()]:
            raise Invalid(faults)

    def _faults(self) -> Iterator[Fault]:
        for field, longest in _LENGTHS.items():
            text = getattr(self, field)
            if text is not None and not 0 < len(text) <= longest:
                yield Fault(field, f"it has {len(text):,} characters, 1-{longest:,} are allowed")
            elif text is not None and _UNWRITABLE.search(text):
                yield Fault(field, f"{echo(text)} has a character that no row can hold")
        if self.kind not in {None, State.FAILED, State.QUARANTINED}:
            yield Fault("kind", f"{self.kind} is neither failed nor quarantined")
        if self.since and self.until and self.since >= self.until:
            yield Fault("until", "it is to be later than since")

    @property
    def conditions(self) -> dict[str, Any]:
        """What is asked for, by its field: None is not, and what follows from it is not either."""
        return attrs.asdict(
            self, filter=lambda field, value: value is not None and field.name != "numbers"
        )


#: What still waits for a person, and everything that ever failed for good.
UNRESOLVED: Final = FailureFilter()
EVERY_FAILURE: Final = FailureFilter(unresolved=False)
