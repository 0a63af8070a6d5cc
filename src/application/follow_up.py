"""What follows an attempt: the message that has to go out once its end is in the ledger."""

from collections.abc import Mapping
from datetime import datetime

from cronhare.domain.execution import Execution, State
from cronhare.domain.headers import kept_headers
from cronhare.domain.messages import failed_body, headers_of, quarantine_body, task_body
from cronhare.domain.moves import end
from cronhare.domain.signing import Seal
from cronhare.domain.topology import ToFailed, ToQuarantine
from cronhare.ports.attempts import Finish, Superseded
from cronhare.ports.broker import Envelope, Message

from .doorbell import envelope, is_carried


def follow_up(
    finish: Finish,
    state: State | Superseded,
    *,
    now: datetime,
    seal: Seal,
    headers: Mapping[str, object] | None = None,
) -> Envelope | None:
    """Make the message that follows the end of an attempt, if any does.

    *state* is what the ledger answered, *headers* are those of the message that began it: a
    failed message keeps what there is room for (S0), a retry none of them (C3). What no message
    carries waits in the ledger alone: the reconciler finds it when it is due.
    """
    execution, verdict = finish.execution, finish.verdict
    match state:
        case State.RETRYING:
            coming = end(execution, verdict, finish.ran.outcome.ending, now=now)
            carried = is_carried(coming, now=now)
            return envelope(coming, now=now, seal=seal) if carried else None
        case State.FAILED:
            body = failed_body(execution, reason=verdict.reason, at=now)
            return Envelope(_last_message(execution, body, headers or {}, seal), ToFailed())
        case State.QUARANTINED:
            body = quarantine_body(execution, at=now)
            return Envelope(_last_message(execution, body, headers or {}, seal), ToQuarantine())
    return None


def _last_message(
    execution: Execution, body: bytes, headers: Mapping[str, object], seal: Seal
) -> Message:
    """Sign what it tells of: the task message, with the headers as they are now."""
    signed = seal.sign(task_body(execution), headers_of(execution))
    kept = {**kept_headers(headers), **signed}
    return Message(body=body, headers=kept, id=f"{execution.message_id}:end")
