"""What an execution that has not ended waits for: who does what next, and when."""

from datetime import datetime

from cronhare.application.starting import keeps_alive
from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution, Graces, State
from cronhare.domain.lifecycle.gates import key_of
from cronhare.domain.retries.retry import task_awaited_until
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.texts.moments import say_moment


def what_it_waits_for(execution: Execution, *, now: datetime) -> str | None:
    """Say what an execution waits for at *now*; None once it has ended."""
    if execution.state not in UNFINISHED:
        return None
    if execution.problem is not None:
        return "a scheduler that quarantines it, as its row is broken"
    match execution.state:
        case State.RUNNING:
            return _running(execution, now)
        case State.HELD:
            return _held(execution)
    return _start(execution, now)


def sent_again_at(execution: Execution, *, now: datetime) -> datetime | None:
    """Say from when on a scheduler takes a message for lost whose attempt has not begun.

    None where there is no message to wait for, or that moment has passed.
    """
    if execution.check_at is None or execution.state not in STARTABLE:
        return None
    try:
        moment = execution.check_at + Graces().of(execution.state)
    except OverflowError:  # the last time that there is, written by hand
        return None
    return moment if moment > now else None


def _running(execution: Execution, now: datetime) -> str:
    lease, owner = execution.lease_until, execution.owner
    if lease is None or lease <= now:
        lapsed = "which has no lease" if lease is None else f"not renewed since {say_moment(lease)}"
        return f"a scheduler that gives attempt {execution.attempt} up for lost: {owner}, {lapsed}"
    if execution.cancel_requested:
        return f"{owner} to stop its task: its end was asked for"
    return f"its task to end, which runs at {owner}"


def _held(execution: Execution) -> str:
    key = key_of(execution.held_by or "")
    if key is not None:
        return f"a place: runs with key {key} are at their limit"
    return "the runs of its schedule that are before it"


def _start(execution: Execution, now: datetime) -> str:
    begins = execution.next_attempt_at
    if (until := task_awaited_until(execution.last_error)) is not None:
        return (
            f"a worker that has its task, at most until {say_moment(until)}: reload those whose "
            "jobs file is older (systemctl reload, kill -HUP; under nohup restart them) or, where "
            "`cronhare doctor --jobs FILE` names none, add the task, or cancel the run"
        )
    if execution.cancel_requested:  # written by hand: `cancel` ends what waits at once
        return "a scheduler to cancel it, as its row asks for; no worker begins it"
    if begins is not None and begins > now:
        return f"its time, {say_moment(begins)}"
    if execution.state is State.CLAIMED:
        return f"a scheduler that hands it to the broker, for queue {execution.queue}"
    if is_standalone(execution.queue):
        return f"what keeps it running: {keeps_alive(execution.schedule_name)}"
    return f"a worker that serves queue {execution.queue}"
