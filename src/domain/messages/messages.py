"""The messages, byte for byte as in docs/compatibility.md, and our own headers.

Messages carry task and params for foreign workers that share our queues. For an execution that the
ledger knows, they come from the ledger.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from ..execution import Execution
from ..retries.crashes import PoisonPill
from ..schedules.params import fault_of_params
from ..schedules.task import TaskRef
from ..texts.moments import iso_ms
from .ids import LARGEST_ID
from .nack_count import DEATHS_HEADER, MOST, nacks_of
from .signing import SIGNATURE_HEADER, Seal

EXECUTION_HEADER = "cron-execution-id"
ATTEMPT_HEADER = "cron-attempt"
KEY_HEADER = "cron-execution-key"
DEDUPLICATION_HEADER = "x-deduplication-header"

#: The headers that are signed, and those that only we write.
SIGNED = (EXECUTION_HEADER, ATTEMPT_HEADER, DEATHS_HEADER, KEY_HEADER, DEDUPLICATION_HEADER)
OURS = frozenset({EXECUTION_HEADER, ATTEMPT_HEADER, DEATHS_HEADER, KEY_HEADER, SIGNATURE_HEADER})

#: W3C's trace context, as any program may give it. It is not signed, as it starts nothing: an older
#: node verifies a newer one's messages all the same.
TRACE_HEADER = "traceparent"

LARGEST_BODY = 256 * 1024

Id = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]

#: Retries before a failure: the attempt that failed is one more. Impossible counts are refused.
Retries = Annotated[int, msgspec.Meta(ge=0, le=MOST - 1)]

LONGEST_TYPE = 32


class TaskMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The task message (S1.8). *params_scheduler* is JSON text within the JSON."""

    type: Annotated[str, msgspec.Meta(max_length=LONGEST_TYPE)]
    id: Id
    scheduler_id: Id
    params_scheduler: str


class FailedMessage(TaskMessage, frozen=True, kw_only=True):
    """The failed message (S1.8): the task message, and why."""

    failed_at: str
    failed_reason: str
    retry_count: Retries

    def task_body(self) -> bytes:
        """Write the task message that failed: a signature is made over its bytes."""
        message = TaskMessage(
            type=self.type,
            id=self.id,
            scheduler_id=self.scheduler_id,
            params_scheduler=self.params_scheduler,
        )
        return msgspec.json.encode(message)


class PoisonPillRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The crashes for which a run is quarantined (S2.8)."""

    job_id: str
    crash_count: int
    first_crash_at: str
    last_crash_at: str


class QuarantineMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The message of a run that is quarantined (S2.8); without a record if not for its crashes."""

    original_queue: str
    original_job_id: str
    original_data: TaskMessage
    poison_pill_record: PoisonPillRecord | None
    quarantined_at: str


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


class AttemptRef(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt of an execution that a message stands for, from our own headers."""

    execution_id: int
    attempt: int


class IncomingTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task message, decoded. Without a *ticket* another program published it.

    *nacks* counts by queue how often its headers say it was nacked.
    """

    task: TaskMessage
    nacks: Mapping[str, int]
    ticket: AttemptRef | None


class Unreadable(msgspec.Struct, frozen=True):
    """Why a message is to be parked."""

    reason: str


def task_body(execution: Execution) -> bytes:
    """Write the task message; the same bytes for every attempt."""
    return msgspec.json.encode(_task_message(execution))


def failed_body(execution: Execution, *, reason: str, at: datetime) -> bytes:
    """Write the failed message. Its retry count is the execution's deaths."""
    message = FailedMessage(
        **msgspec.structs.asdict(_task_message(execution)),
        failed_at=iso_ms(at),
        failed_reason=reason,
        retry_count=execution.deaths,
    )
    return msgspec.json.encode(message)


def pill_record(execution_id: int, pill: PoisonPill | None) -> PoisonPillRecord | None:
    """Write the crashes for which an execution is quarantined, as the original does."""
    if pill is None:
        return None
    return PoisonPillRecord(
        job_id=str(execution_id),
        crash_count=pill.crash_count,
        first_crash_at=iso_ms(pill.first_crash_at),
        last_crash_at=iso_ms(pill.last_crash_at),
    )


def pill_key(queue: str, execution_id: int) -> str:
    """Name a poison pill as the original does.

    >>> pill_key("cron_scheduler", 7)
    'poison:cron_scheduler:7'
    """
    return f"poison:{queue}:{execution_id}"


def quarantine_body(execution: Execution, pill: PoisonPill | None, *, at: datetime) -> bytes:
    """Write the message of a run that was quarantined at *at*, for a *pill* or for its row."""
    message = QuarantineMessage(
        original_queue=execution.queue,
        original_job_id=str(execution.id),
        original_data=_task_message(execution),
        poison_pill_record=pill_record(execution.id, pill),
        quarantined_at=iso_ms(at),
    )
    return msgspec.json.encode(message)


def headers_of(execution: Execution) -> dict[str, object]:
    """Give an attempt's headers, always new: a broker's own headers are never copied (ADR 6)."""
    return {
        EXECUTION_HEADER: execution.id,
        ATTEMPT_HEADER: execution.attempt,
        DEATHS_HEADER: execution.deaths,
        KEY_HEADER: execution.key,
        DEDUPLICATION_HEADER: execution.message_id,
    }


def read(body: bytes, headers: Mapping[str, object], seal: Seal) -> IncomingTask | Unreadable:
    """Decode a task message, or say why it cannot be decoded or believed."""
    if len(body) > LARGEST_BODY:
        return Unreadable(f"the body has {len(body)} bytes, {LARGEST_BODY} are allowed")
    try:
        task = msgspec.json.decode(body, type=TaskMessage)
    except msgspec.DecodeError as error:
        return Unreadable(f"the body is not a task message: {error}")
    except (UnicodeDecodeError, RecursionError) as error:
        return Unreadable(f"the body is not JSON: {error}")
    if fault := fault_of_seal(body, headers, seal):
        return Unreadable(fault)
    ticket = ticket_of(headers)
    fault = None if ticket else fault_of_foreign(task)
    return (
        Unreadable(fault)
        if fault
        else IncomingTask(task=task, nacks=nacks_of(headers), ticket=ticket)
    )


def fault_of_seal(body: bytes, headers: Mapping[str, object], seal: Seal) -> str | None:
    """Say why our own headers cannot be believed; without a key all of them are.

    *body* is that of the task message.
    """
    if not seal.keys or OURS.isdisjoint(headers) or seal.holds(body, headers, of=SIGNED):
        return None
    why = "signed by none of our keys" if SIGNATURE_HEADER in headers else "not signed"
    return f"its headers are ours, and it is {why} (CRON_MESSAGE_KEY)"


def fault_of_foreign(message: TaskMessage) -> str | None:
    """Say why another program's message may not have its task run; None if it may."""
    if TaskRef(message.type, message.id).is_system:
        return f"tasks of the type {message.type} are our own"
    return fault_of_carried(message)


def fault_of_carried(message: TaskMessage) -> str | None:
    """Say what is wrong with the params that a message carries, ours or not."""
    fault = fault_of_params(message.params_scheduler)
    return fault and f"params_scheduler: {fault}"


def ticket_of(headers: Mapping[str, object]) -> AttemptRef | None:
    """Read the attempt that a message stands for; None if the headers are not ours."""
    execution_id, attempt = headers.get(EXECUTION_HEADER), headers.get(ATTEMPT_HEADER)
    match execution_id, attempt:
        case (bool(), _) | (_, bool()):  # an int to Python alone
            return None
        case int(), int() if 0 < execution_id <= LARGEST_ID and 0 < attempt <= LARGEST_ID:
            return AttemptRef(execution_id=execution_id, attempt=attempt)
    return None


def _task_message(execution: Execution) -> TaskMessage:
    return TaskMessage(
        type=execution.task.type,
        id=execution.task.id,
        scheduler_id=execution.scheduler_id,
        params_scheduler=execution.params,
    )
