"""Logging how attempts ended, in the words of docs/compatibility.md, and what ends change.

A failed attempt is one line at ERROR, with its stack; what follows from it is logged at WARN. The
monitor logs a last failure at ERROR again (S0.7).
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.retry_limits import Limited, RetryPolicies
from cronhare.domain.messages import pill_key
from cronhare.domain.retries.limits import Changed, LimitChange
from cronhare.domain.retries.outcome import Ending, TaskError
from cronhare.domain.retries.retry import Quarantine, RetryAfter
from cronhare.domain.texts.moments import say_duration, say_moment
from cronhare.domain.texts.words import counted
from cronhare.ports.attempts import Finish, Recorded, Superseded
from cronhare.ports.claims import LetGo

from .logs import SUCCESS, say

log = logging.getLogger(__name__)


def log_outcome(
    finish: Finish,
    recorded: State | Superseded,
    *,
    duration: str,
    policies: RetryPolicies,
) -> None:
    execution, verdict = finish.execution, finish.verdict
    match recorded:
        case Superseded():
            text = "The result is not counted: the attempt was ended in the ledger before"
            say(log, logging.WARNING, "attempt.superseded", text, execution, duration=duration)
        case State.QUARANTINED if finish.ran.outcome.ending is Ending.SUCCEEDED:
            text = f"Task quarantined, though it has done its work: {verdict.reason}"
            say(log, logging.WARNING, "execution.quarantined", text, execution, duration=duration)
        case State.SUCCEEDED:
            text = "Task completed successfully"
            say(log, SUCCESS, "attempt.succeeded", text, execution, duration=duration)
        case State.CANCELLED:
            say(log, logging.WARNING, "attempt.cancelled", "Task cancelled", execution)
        case State.RETRYING if finish.ran.outcome.ending is Ending.SNOOZED:
            text = f"Task {verdict.reason}"
            say(log, logging.INFO, "attempt.snoozed", text, execution, duration=duration)
        case State.RETRYING if not isinstance(verdict, RetryAfter):
            text = f"Task given back: {verdict.reason}"
            say(log, logging.WARNING, "attempt.given-back", text, execution, duration=duration)
        case _:
            _log_failure(finish, recorded, duration, policies)


def log_late(archived: Archived) -> None:
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


def _log_failure(finish: Finish, state: State, duration: str, policies: RetryPolicies) -> None:
    execution, verdict = finish.execution, finish.verdict
    stack = _stack(finish.ran.outcome.error)
    text = "Task execution failed"
    say(log, logging.ERROR, "attempt.failed", text, execution, stack=stack, duration=duration)
    match state, verdict:
        case State.RETRYING, RetryAfter():
            retry = f"{execution.deaths + 1}/{policies.of(execution).max_retries}"
            text = f"Scheduling retry {retry} in {_wait(verdict)}"
            say(log, logging.WARNING, "attempt.retry", text, execution)
        case State.FAILED, _:
            text = f"Task failed for good and is kept in the archive: {verdict.reason}"
            say(log, logging.WARNING, "execution.failed", text, execution)
        case State.QUARANTINED, Quarantine(crashes=(_, *_)):
            text = (
                f"Poison Pill Job Quarantined: it {verdict.reason}. Look at it, then: "
                f"cronhare quarantine release, or discard"
            )
            pill = {"severity": "critical", "key": pill_key(execution.queue, execution.id)}
            say(log, logging.CRITICAL, "execution.quarantined", text, execution, **pill)
        case State.QUARANTINED, _:
            text = f"Task quarantined: {verdict.reason}"
            say(log, logging.WARNING, "execution.quarantined", text, execution)


def _wait(verdict: RetryAfter) -> str:
    """Write a wait as the original does; a long one so that people can read it, too."""
    text = f"{verdict.delay.total_seconds() * 1000:.0f}ms"
    whole = timedelta(seconds=round(verdict.delay.total_seconds()))
    for_people = say_duration(whole) if verdict.delay > timedelta(hours=1) else ""
    more = "; ".join(filter(None, (for_people, verdict.note)))
    return f"{text} ({more})" if more else text


def _stack(error: TaskError | None) -> str:
    if error is None:
        return "Error: no reason was given"
    return error.stack or f"Error: {error.message}"


def log_limits(recorded: Recorded) -> None:
    if isinstance(recorded, Limited):
        for change in recorded.changes:
            _log(change)


def _log(change: LimitChange) -> None:
    text, of = change.text, change.of
    match change.what:
        case Changed.BUDGET_SPENT:
            say(log, logging.WARNING, "budget.spent", text, queue=of)
        case Changed.BUDGET_FREE:
            say(log, logging.INFO, "budget.free", text, queue=of)
        case Changed.BREAKER_OPENED:
            say(log, logging.WARNING, "breaker.opened", text, task=of)
        case Changed.BREAKER_PROBED:
            say(log, logging.INFO, "breaker.half-open", text, task=of)
        case Changed.BREAKER_CLOSED:
            say(log, logging.INFO, "breaker.closed", text, task=of)
        case Changed.SCHEDULE_PAUSED:
            say(log, logging.WARNING, "schedule.paused", text, schedule=of)


def log_late_runs(runs: Sequence[Execution]) -> None:
    last = max(run.next_attempt_at or run.due_at for run in runs)
    text = (
        f"{counted(len(runs), 'late run')} to begin one after the other, the last at "
        f"{say_moment(last)}: CRON_CATCH_UP_BUDGET lets no more begin in a minute"
    )
    say(log, logging.WARNING, "run.spread", text)


def log_let_go(answer: LetGo) -> None:
    for one in answer.executions:
        text = f"Execution {one.id} of {one.schedule_name} is held back no more"
        say(log, logging.DEBUG, "gate.passed", text)
    for one in answer.cancelled:
        what = "is cancelled" if one.state is State.CANCELLED else "is asked to end"
        text = f"Execution {one.id} of {one.schedule_name} {what}: a later run takes its place"
        say(log, logging.INFO, "gate.replaced", text)
