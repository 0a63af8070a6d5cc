"""The message that follows an attempt, once its end is in the ledger."""

from collections.abc import Mapping
from datetime import datetime

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Ended
from cronhare.domain.lifecycle.failures import LARGEST_FAILED
from cronhare.domain.lifecycle.transitions import end
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import failed_body, headers_of, quarantine_body, task_body
from cronhare.domain.messages.signing import Seal
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import ToFailed, ToQuarantine
from cronhare.ports.attempts import EndRefused, Finish, Recorded
from cronhare.ports.broker import Envelope, Message

from .execution_publisher import envelope, is_carried


def follow_up(
    finish: Finish,
    recorded: Recorded,
    *,
    now: datetime,
    seal: Seal,
    headers: Mapping[str, object] | None = None,
) -> Envelope | None:
    """Make the message that follows the end of an attempt, if any does.

    *recorded* is what the ledger answered. Of *headers*, those of the message that began the
    attempt, a failed message keeps what there is room for, a retry none (ADR 7). A retry that
    waits for longer than the lanes reach has no message: the reconciler finds it when it is due.
    """
    execution, verdict = finish.execution, finish.verdict
    match recorded:
        case State.RETRYING:
            coming = end(execution, verdict, finish.ran.outcome.ending, now=now)
            carried = is_carried(coming, now=now)
            return envelope(coming, now=now, seal=seal) if carried else None
        case State.FAILED | State.QUARANTINED as state:
            signed = _signed(execution, seal, headers or {})
            return _last(execution, state, reason=verdict.reason, at=now, headers=signed)
        case EndRefused(reason, is_over=True):
            signed = _signed(execution, seal, headers or {})
            return _last(execution, State.QUARANTINED, reason=reason, at=now, headers=signed)
    return None


def is_last(following: Envelope) -> bool:
    """Tell whether a message follows a last attempt: the archive tracks if a queue has it."""
    return isinstance(following.to, ToFailed | ToQuarantine)


@attrs.frozen
class Unsendable:
    """Why an end can have no message: its row in the archive was spoilt."""

    reason: str


def follow_up_late(ended: Ended, seal: Seal) -> Envelope | Unsendable:
    """Make the message of an end again, where no queue is known to have it.

    It lacks the headers of the message that began the attempt. A row of which no message can be
    made, or none that a reader would accept, affects no other.
    """
    try:
        late = _late(ended, seal)
    except Exception as error:  # noqa: BLE001 - the others are to be sent
        return Unsendable(f"{type(error).__name__}: {error}")
    size = len(late.message.body)
    if size > LARGEST_FAILED:
        return Unsendable(f"it would have {size} bytes, {LARGEST_FAILED} are allowed")
    return late


def _late(ended: Ended, seal: Seal) -> Envelope:
    row, execution = ended.archived, _as_archived(ended)
    return _last(
        execution,
        execution.state,
        reason=row.failed_reason,
        at=row.failed_at,
        headers=_signed(execution, seal, {}),
    )


def _signed(
    execution: Execution, seal: Seal, headers: Mapping[str, object]
) -> Mapping[str, object]:
    """Sign the task message that the last message is about, with its headers as they are now."""
    signed = seal.sign(task_body(execution), headers_of(execution))
    return {**kept_headers(headers), **signed}


def _last(
    execution: Execution, state: State, *, reason: str, at: datetime, headers: Mapping[str, object]
) -> Envelope:
    id_ = f"{execution.message_id}:end"
    if state is State.QUARANTINED:
        body = quarantine_body(execution, at=at)
        return Envelope(Message(body=body, headers=headers, id=id_), ToQuarantine())
    body = failed_body(execution, reason=reason, at=at)
    return Envelope(Message(body=body, headers=headers, id=id_), ToFailed())


def _as_archived(ended: Ended) -> Execution:
    """Describe an execution as its last attempt had it: its own row may be gone."""
    row = ended.archived
    return Execution(
        id=row.execution_id,
        scheduler_id=row.scheduler_id,
        schedule_name=row.schedule_name,
        key=row.execution_key,
        state=row.state,
        task=TaskRef(row.task_type, row.task_id),
        params=row.params,
        queue=row.queue,
        attempt=row.attempts,
        deaths=row.retry_count,
        version=0,
        due_at=row.failed_at,
        executed_at=row.failed_at,
        container_id="",
        last_error=row.failed_reason,
        crashed_at=ended.crashed_at,
    )
