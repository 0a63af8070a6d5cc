"""The message that follows an attempt, once its end is in the ledger."""

from collections.abc import Mapping
from datetime import datetime

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.transitions import end
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import failed_body, headers_of, quarantine_body, task_body
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.crashes import PoisonPill
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import ToFailed, ToQuarantine
from cronhare.ports.attempts import Finish, Superseded
from cronhare.ports.broker import Envelope, Message

from .execution_publisher import envelope, is_carried


def follow_up(
    finish: Finish,
    recorded: State | Superseded,
    *,
    now: datetime,
    seal: Seal,
    headers: Mapping[str, object] | None = None,
    trace: str | None = None,
) -> Envelope | None:
    """Make the message that follows the end of an attempt, if any does.

    *recorded* is what the ledger answered; *headers* are those of the message that began the
    attempt. A failed message keeps as many of the *headers* as fit; a retry keeps none (ADR 6). A
    retry that waits for longer than the lanes reach has no message: the reconciler finds it when
    it is due. *trace* is as in `envelope`.
    """
    execution, verdict = finish.execution, finish.verdict
    match recorded:
        case State.RETRYING:
            coming = end(execution, verdict, finish.ran.outcome.ending, now=now)
            carried = is_carried(coming, now=now)
            return envelope(coming, now=now, seal=seal, trace=trace) if carried else None
        case State.FAILED | State.QUARANTINED as state:
            pill = PoisonPill.of(verdict.crashes) if isinstance(verdict, Quarantine) else None
            reason = verdict.reason
            return _last(execution, state, reason, at=now, seal=seal, headers=headers, pill=pill)
    return None


def is_last(following: Envelope) -> bool:
    """Tell whether a message follows a last attempt: the archive tracks if a queue has it."""
    return isinstance(following.to, ToFailed | ToQuarantine)


def follow_up_late(row: Archived, seal: Seal) -> Envelope:
    """Make the message of an end again, where no queue is known to have it.

    It lacks the headers of the message that began the attempt.
    """
    return _last(
        _as_archived(row), row.state, row.failed_reason, at=row.failed_at, seal=seal, pill=row.pill
    )


def _last(
    execution: Execution,
    state: State,
    reason: str,
    *,
    at: datetime,
    seal: Seal,
    headers: Mapping[str, object] | None = None,
    pill: PoisonPill | None = None,
) -> Envelope:
    """Make the last message. It has the signature of the task message that it is about."""
    signed = seal.sign(task_body(execution), headers_of(execution))
    to: ToQuarantine | ToFailed
    if state is State.QUARANTINED:
        body, to = quarantine_body(execution, pill, at=at), ToQuarantine()
    else:
        body, to = failed_body(execution, reason=reason, at=at), ToFailed()
    all_headers = {**kept_headers(headers or {}), **signed}
    return Envelope(Message(body=body, headers=all_headers, id=f"{execution.message_id}:end"), to)


def _as_archived(row: Archived) -> Execution:
    """Describe an execution as its last attempt had it: its own row may be gone."""
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
    )
