"""What the end of an attempt writes: its own row, its execution's, its output, the archive."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, insert, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.outcome import Ending, TaskError
from cronhare.domain.retry import Cancel, Complete, Fail, GiveBack, Quarantine, RetryAfter, Verdict
from cronhare.ports.attempts import Finish
from cronhare.ports.runner import Captured

from .tables import attempts, executions, failed_tasks, outputs
from .types import UtcDateTime

_CRASHES = frozenset({Ending.CRASHED, Ending.LOST})

_END_EXECUTION = (
    update(executions)
    .where(executions.c.id == bindparam("ended_id"))
    .values(
        state=bindparam("state"),
        attempt=bindparam("attempt"),
        deaths=bindparam("deaths"),
        crashes=executions.c.crashes + bindparam("crashed"),
        next_attempt_at=bindparam("next_attempt_at", type_=UtcDateTime),
        check_at=bindparam("next_attempt_at", type_=UtcDateTime),
        finished_at=bindparam("finished_at", type_=UtcDateTime),
        last_error=bindparam("last_error"),
        owner=None,
        lease_until=None,
        version=executions.c.version + 1,
    )
)
_END_ATTEMPT = (
    update(attempts)
    .where(
        attempts.c.execution_id == bindparam("ended_id"),
        attempts.c.attempt == bindparam("ended_attempt"),
    )
    .values(
        finished_at=bindparam("finished_at", type_=UtcDateTime),
        ending=bindparam("ending"),
        exit_code=bindparam("exit_code"),
        signal=bindparam("signal"),
        pid=bindparam("pid"),
        error=bindparam("error"),
        peak_memory=bindparam("peak_memory"),
        cpu_seconds=bindparam("cpu_seconds"),
    )
)
_KEEP_OUTPUT = insert(outputs)
_ARCHIVE = insert(failed_tasks)


def write_endings(
    connection: Connection, ended: list[tuple[Execution, Finish]], *, now: datetime
) -> list[State]:
    """Write the ends of running attempts, each paired with its execution as it is now.

    Answers the states that the executions are in then.
    """
    if not ended:
        return []
    verdicts = [_verdict(execution, finish) for execution, finish in ended]
    moves = [
        _execution_values(execution, finish, verdict, now)
        for (execution, finish), verdict in zip(ended, verdicts, strict=True)
    ]
    connection.execute(_END_EXECUTION, moves)
    connection.execute(_END_ATTEMPT, [_attempt_values(*pair, now) for pair in ended])
    if said := [_output_values(*pair) for pair in ended if _said_anything(pair[1])]:
        connection.execute(_KEEP_OUTPUT, said)
    if failed := [
        _archive_values(execution, finish, verdict, now)
        for (execution, finish), verdict in zip(ended, verdicts, strict=True)
        if isinstance(verdict, Fail | Quarantine)
    ]:
        connection.execute(_ARCHIVE, failed)
    return [State(move["state"]) for move in moves]


def _verdict(execution: Execution, finish: Finish) -> Verdict:
    """A cancel that was asked for wins over whatever came of the attempt (C25)."""
    return Cancel() if execution.cancel_requested else finish.verdict


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


def _execution_values(
    execution: Execution, finish: Finish, verdict: Verdict, now: datetime
) -> dict[str, Any]:
    delay = _delay(verdict)
    return {
        "ended_id": execution.id,
        "state": _state_after(verdict).value,
        "attempt": execution.attempt + (delay is not None),
        "deaths": execution.deaths + isinstance(verdict, RetryAfter),
        "crashed": int(finish.ran.outcome.ending in _CRASHES),
        "next_attempt_at": None if delay is None else now + delay,
        "finished_at": now if delay is None else None,
        "last_error": None if isinstance(verdict, Complete) else verdict.reason,
    }


def _delay(verdict: Verdict) -> timedelta | None:
    match verdict:
        case RetryAfter(delay):
            return delay
        case GiveBack():
            return timedelta(0)
    return None


def _attempt_values(execution: Execution, finish: Finish, now: datetime) -> dict[str, Any]:
    ran, outcome = finish.ran, finish.ran.outcome
    return {
        "ended_id": execution.id,
        "ended_attempt": execution.attempt,
        "finished_at": now,
        "ending": outcome.ending.value,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "pid": ran.pid,
        "error": _as_json(outcome.error),
        "peak_memory": ran.peak_memory,
        "cpu_seconds": ran.cpu_seconds,
    }


def _said_anything(finish: Finish) -> bool:
    nothing = Captured()
    return finish.ran.stdout != nothing or finish.ran.stderr != nothing


def _output_values(execution: Execution, finish: Finish) -> dict[str, Any]:
    stdout, stderr = finish.ran.stdout, finish.ran.stderr
    return {
        "execution_id": execution.id,
        "attempt": execution.attempt,
        "stdout_head": stdout.head,
        "stdout_tail": stdout.tail,
        "stdout_bytes": stdout.bytes,
        "stderr_head": stderr.head,
        "stderr_tail": stderr.tail,
        "stderr_bytes": stderr.bytes,
    }


def _archive_values(
    execution: Execution, finish: Finish, verdict: Fail | Quarantine, now: datetime
) -> dict[str, Any]:
    return {
        "execution_id": execution.id,
        "scheduler_id": execution.scheduler_id,
        "schedule_name": execution.schedule_name,
        "execution_key": execution.key,
        "kind": _state_after(verdict).value,
        "task_type": execution.task.type,
        "task_id": execution.task.id,
        "queue": execution.queue,
        "params": execution.params,
        "failed_at": now,
        "failed_reason": verdict.reason,
        "error": _as_json(finish.ran.outcome.error),
        "attempts": execution.attempt,
        "retry_count": execution.deaths,
    }


def _as_json(error: TaskError | None) -> str | None:
    return None if error is None else msgspec.json.encode(error).decode()
