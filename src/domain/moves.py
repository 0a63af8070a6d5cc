"""What each move makes of an execution. Every ledger writes what is decided here."""

from datetime import datetime, timedelta

import msgspec

from .execution import REPLAYABLE, Execution, State
from .failures import Failure
from .nodes import container_id
from .outcome import CRASHES, Ending
from .planning import Skip
from .retry import Cancel, Complete, Fail, GiveBack, Quarantine, RetryAfter, Verdict
from .schedule import CLEANUP_NAME, Schedule
from .task import TaskRef

#: What somebody asked for is overdue from the start, so that the next reconciler publishes it.
ALREADY_OVERDUE = timedelta(days=1)


def claim(
    schedule: Schedule, key: str, *, due: datetime, now: datetime, node: str, begins: datetime
) -> Execution:
    """Describe the claim of a run with what its schedule says now; the ledger gives it an id."""
    return Execution(
        id=0,
        scheduler_id=schedule.id,
        schedule_name=schedule.name,
        key=key,
        state=State.CLAIMED,
        source=schedule.source,
        task_name=schedule.task_name,
        task=schedule.task,
        params=schedule.params,
        queue=schedule.queue,
        attempt=1,
        deaths=0,
        version=1,
        due_at=due,
        executed_at=now,
        container_id=container_id(node),
        retry=schedule.retry,
        timeout=schedule.timeout,
        next_attempt_at=begins,
    )


def as_told(run: Execution, task: TaskRef) -> Execution:
    """Let a message say which task is run. One with another number has another name, unknown.

    Its source stays the schedule's: a message cannot reach a task of another one.
    """
    return run if task == run.task else msgspec.structs.replace(run, task=task, task_name=None)


def skip(schedule: Schedule, skipped: Skip, *, now: datetime, node: str) -> Execution:
    """Describe a row of instants that do not run, under the key of the first."""
    return msgspec.structs.replace(
        claim(schedule, skipped.key, due=skipped.first, now=now, node=node, begins=now),
        state=State.SKIPPED,
        next_attempt_at=None,
        finished_at=now,
        last_error=skipped.reason,
        last_due_at=skipped.last,
        missed=skipped.count,
    )


def publish(execution: Execution, *, now: datetime) -> Execution:
    """Note that the message of a claimed execution is in a queue."""
    return msgspec.structs.replace(
        execution, state=State.PUBLISHED, version=execution.version + 1, published_at=now
    )


def hand_over(execution: Execution, *, now: datetime) -> Execution:
    """End an execution whose message is in a queue of another program, for good."""
    return msgspec.structs.replace(
        execution,
        state=State.HANDED_OVER,
        version=execution.version + 1,
        published_at=execution.published_at or now,
        next_attempt_at=None,
        finished_at=now,
    )


def begin(
    execution: Execution, *, deaths: int, node: str, lease_until: datetime, now: datetime
) -> Execution:
    """Start the attempt that an execution waits for; *deaths* is what its message has counted."""
    return msgspec.structs.replace(
        execution,
        state=State.RUNNING,
        version=execution.version + 1,
        owner=node,
        lease_until=lease_until,
        started_at=execution.started_at or now,
        next_attempt_at=None,
        resends=0,
        deaths=max(execution.deaths, deaths),
    )


def cancel(execution: Execution, *, now: datetime) -> Execution:
    """End an execution that waits, because somebody asked for it."""
    return msgspec.structs.replace(
        execution,
        state=State.CANCELLED,
        version=execution.version + 1,
        cancel_requested=True,
        next_attempt_at=None,
        finished_at=now,
    )


def may_be_replayed(execution: Execution) -> bool:
    """Tell whether an execution may be sent again."""
    return why_not_replayed(execution) is None


def why_not_replayed(execution: Execution) -> str | None:
    """Say why an execution may not be sent again, and what would have to change."""
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}. Mend it by hand, then replay it"
    if execution.state not in REPLAYABLE:
        return f"it is {execution.state}"
    if execution.task.is_system and execution.schedule_name != CLEANUP_NAME:
        return f"its task is the system's own, which runs for {CLEANUP_NAME} alone. Discard it"
    return None


def replay(execution: Execution, *, begins: datetime) -> Execution:
    """Send an execution that ended badly on its way again, with a fresh retry allowance."""
    return msgspec.structs.replace(
        execution,
        state=State.CLAIMED,
        version=execution.version + 1,
        attempt=execution.attempt + 1,
        deaths=0,
        crashed_at=(),
        last_error=None,
        published_at=None,
        started_at=None,
        finished_at=None,
        next_attempt_at=begins,
    )


def replay_at(place: int, *, now: datetime, apart: timedelta) -> datetime:
    """Say when the execution at a *place* in a row of replays begins; the first, 0, does so now."""
    return now + place * apart if place * apart else now - ALREADY_OVERDUE


def overruled(execution: Execution, verdict: Verdict) -> Verdict:
    """Let a cancel that was asked for win over whatever came of the attempt."""
    return Cancel() if execution.cancel_requested else verdict


def end(execution: Execution, verdict: Verdict, ending: Ending, *, now: datetime) -> Execution:
    """Say how an execution stands once its running attempt has come to its end."""
    delay = delay_of(verdict)
    return msgspec.structs.replace(
        execution,
        state=state_after(verdict),
        version=execution.version + 1,
        owner=None,
        lease_until=None,
        attempt=execution.attempt + (delay is not None),
        deaths=execution.deaths + isinstance(verdict, RetryAfter),
        next_attempt_at=None if delay is None else now + delay,
        finished_at=now if delay is None else None,
        last_error=None if isinstance(verdict, Complete) else verdict.reason,
        crashed_at=(*execution.crashed_at, now) if ending in CRASHES else execution.crashed_at,
    )


def fail_elsewhere(
    execution: Execution, failure: Failure, *, now: datetime
) -> tuple[Execution, Execution]:
    """Start and end the attempt that somebody else's worker has failed: both steps."""
    deaths, verdict = failure.message.retry_count, Fail(failure.message.failed_reason)
    running = begin(execution, deaths=deaths, node="", lease_until=now, now=now)
    return running, end(running, verdict, Ending.FAILED, now=now)


def delay_of(verdict: Verdict) -> timedelta | None:
    """Say how long the next attempt waits; None if there is none."""
    match verdict:
        case RetryAfter(delay) | GiveBack(delay=delay):
            return delay
    return None


def state_after(verdict: Verdict) -> State:
    """Say where a verdict leads."""
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
