"""What the end of an attempt writes: its own row, its output, the archive, its execution."""

from datetime import datetime

import attrs
import msgspec

from cronhare.domain.execution import Execution, State
from cronhare.domain.outcome import Ending, TaskError
from cronhare.domain.retry import Cancel, Complete, Fail, GiveBack, Quarantine, RetryAfter, Verdict
from cronhare.ports.attempts import Finish
from cronhare.ports.records import Archived, Output
from cronhare.ports.runner import Captured, Ran

from .history import History
from .ledger import MemoryLedger


def end(ledger: MemoryLedger, execution: Execution, finish: Finish, now: datetime) -> State:
    """Write the end of a running attempt; answers the state that its execution is in then.

    A cancel that was asked for wins over whatever came of the attempt (C25).
    """
    verdict = Cancel() if execution.cancel_requested else finish.verdict
    _record(ledger.history, execution, finish.ran, now)
    if isinstance(verdict, Fail | Quarantine):
        _archive(ledger, execution, finish.ran.outcome.error, verdict, now)
    return _conclude(ledger.history, execution, finish.ran, verdict, now).state


def _record(history: History, execution: Execution, ran: Ran, now: datetime) -> None:
    outcome = ran.outcome
    attempt = history.attempts(execution.id)[execution.attempt]
    history.record(
        attrs.evolve(
            attempt,
            finished_at=now,
            ending=outcome.ending.value,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            pid=ran.pid,
            error=_as_json(outcome.error),
            peak_memory=ran.peak_memory,
            cpu_seconds=ran.cpu_seconds,
        )
    )
    if (ran.stdout, ran.stderr) != (Captured(), Captured()):
        output = Output(attempt=attempt.attempt, stdout=ran.stdout, stderr=ran.stderr)
        history.keep_output(execution.id, output)


def _archive(
    ledger: MemoryLedger,
    execution: Execution,
    error: TaskError | None,
    verdict: Fail | Quarantine,
    now: datetime,
) -> None:
    id_ = ledger.new_archive_id()
    ledger.archive[id_] = Archived(
        id=id_,
        execution_id=execution.id,
        scheduler_id=execution.scheduler_id,
        schedule_name=execution.schedule_name,
        execution_key=execution.key,
        kind=_state_after(verdict).value,
        task_type=execution.task.type,
        task_id=execution.task.id,
        queue=execution.queue,
        params=execution.params,
        failed_at=now,
        failed_reason=verdict.reason,
        error=_as_json(error),
        attempts=execution.attempt,
        retry_count=execution.deaths,
    )


def _conclude(
    history: History, execution: Execution, ran: Ran, verdict: Verdict, now: datetime
) -> Execution:
    crashed = ran.outcome.ending in {Ending.CRASHED, Ending.LOST}
    ended = history.move(
        execution,
        _state_after(verdict),
        owner=None,
        lease_until=None,
        last_error=None if isinstance(verdict, Complete) else verdict.reason,
        crashed_at=(*execution.crashed_at, now) if crashed else execution.crashed_at,
    )
    following = ended.attempt + 1
    match verdict:
        case RetryAfter(delay):
            return history.change(
                ended, attempt=following, deaths=ended.deaths + 1, next_attempt_at=now + delay
            )
        case GiveBack():
            return history.change(ended, attempt=following, next_attempt_at=now)
    return history.change(ended, finished_at=now)


def _state_after(verdict: Verdict) -> State:
    match verdict:
        case Complete():
            return State.SUCCEEDED
        case RetryAfter() | GiveBack():
            return State.RETRYING
        case Fail():
            return State.FAILED
        case Quarantine():
            return State.QUARANTINED
        case Cancel():
            return State.CANCELLED


def _as_json(error: TaskError | None) -> str | None:
    return None if error is None else msgspec.json.encode(error).decode()
