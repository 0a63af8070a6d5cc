"""The log lines that tell how an attempt ended (S0, S1: the words are theirs).

One attempt that failed is one line at ERROR, with its stack. What follows from that
is told at WARN: a retry, the archive, the quarantine. The monitor's line for what failed for good
is S0's, at ERROR.
"""

import logging

from cronhare.domain.echo import echo
from cronhare.domain.execution import State
from cronhare.domain.outcome import TaskError
from cronhare.domain.retry import RetryAfter, RetryPolicy
from cronhare.ports.attempts import Finish, Superseded
from cronhare.ports.records import Archived

from .logs import SUCCESS, say

log = logging.getLogger(__name__)


def tell(finish: Finish, state: State | Superseded, *, duration: str, policy: RetryPolicy) -> None:
    """Log the end of an attempt. *policy* holds where the schedule has none."""
    execution, verdict = finish.execution, finish.verdict
    match state:
        case Superseded():
            text = "The result is not counted: the attempt was ended in the ledger before"
            say(log, logging.WARNING, "attempt.superseded", text, execution, duration=duration)
        case State.SUCCEEDED:
            text = "Task completed successfully"
            say(log, SUCCESS, "attempt.succeeded", text, execution, duration=duration)
        case State.CANCELLED:
            say(log, logging.WARNING, "attempt.cancelled", "Task cancelled", execution)
        case State.RETRYING if not isinstance(verdict, RetryAfter):
            text = f"Task given back: {verdict.reason}"
            say(log, logging.WARNING, "attempt.given-back", text, execution, duration=duration)
        case _:
            _tell_failure(finish, state, duration, execution.retry or policy)


def tell_late(archived: Archived) -> None:
    """Log an end for good of which nobody may have heard; twice is better than never."""
    is_failed = archived.state is State.FAILED
    end = "failed for good" if is_failed else "quarantined"
    say(
        log,
        logging.WARNING,
        "execution.failed" if is_failed else "execution.quarantined",
        f"Task {end}, and its message may be in no queue: sending it. {archived.failed_reason}",
        type=archived.task_type,
        id=archived.task_id,
        scheduler_id=archived.scheduler_id,
        execution=archived.execution_id,
        attempt=archived.attempts,
        schedule=archived.schedule_name,
    )


def tell_unsendable(archived: Archived, reason: str) -> None:
    """Log an end for good of which no queue will ever hear."""
    text = (
        f"The end of execution {archived.execution_id} of {archived.schedule_name} is in the "
        f"archive alone, its message cannot be made: {echo(reason)}. Somebody has spoilt row "
        f"{archived.id} of FailedTask: cronhare failed show {archived.id}"
    )
    say(log, logging.ERROR, "execution.unsendable", text)


def _tell_failure(finish: Finish, state: State, duration: str, policy: RetryPolicy) -> None:
    execution, verdict = finish.execution, finish.verdict
    stack = _stack(finish.ran.outcome.error)
    text = "Task execution failed"
    say(log, logging.ERROR, "attempt.failed", text, execution, stack=stack, duration=duration)
    match state, verdict:
        case State.RETRYING, RetryAfter(delay):
            retry = f"{execution.deaths + 1}/{policy.max_retries}"
            text = f"Scheduling retry {retry} in {delay.total_seconds() * 1000:.0f}ms"
            say(log, logging.WARNING, "attempt.retry", text, execution)
        case State.FAILED, _:
            text = f"Task failed for good and is kept in the archive: {verdict.reason}"
            say(log, logging.WARNING, "execution.failed", text, execution)
        case State.QUARANTINED, _:
            text = f"Task quarantined: {verdict.reason}"
            say(log, logging.WARNING, "execution.quarantined", text, execution)


def _stack(error: TaskError | None) -> str:
    if error is None:
        return "Error: no reason was given"
    return error.stack or f"Error: {error.message}"
