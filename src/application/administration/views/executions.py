"""Executions, what they wait for, their attempts and output."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.application.starting import keeps_alive
from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution, Graces, State
from cronhare.domain.lifecycle.gates import key_of
from cronhare.domain.lifecycle.retry_limits import waits_for_its_turn
from cronhare.domain.retries.retry import task_awaited_until
from cronhare.domain.schedules.keys import Trigger, is_standalone, trigger_of
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import called
from cronhare.ports.records import Attempt, Output
from cronhare.ports.runner import NOTHING_REPORTED, Captured, TaskReport

from .values import ErrorView, RetryView, completed_at, json_value, outward_status, same, seconds


@attrs.frozen(kw_only=True)
class ExecutionView:
    """An execution, with all that explains why it is where it is; see `Execution`.

    *waits_for* says so in words, and is None once it has ended. Its start is looked for from
    *check_at* on, graces aside; its message is taken for lost at *sent_again_at*. *status* is its
    state by its outward name, *completed_at* the end of a success alone (C26, C38 in
    docs/compatibility.md). *progress* is of the attempt that runs, *result* of the last one; where
    many are listed there are no results. *trigger* is what it came of: time, hand, boot, backfill,
    program.
    """

    id: int
    scheduler_id: int
    schedule_name: str
    key: str
    trigger: Trigger
    state: State
    status: str
    task: TaskRef
    task_name: str | None
    source: str | None
    params: Any
    queue: str
    attempt: int
    deaths: int
    version: int
    due_at: datetime
    last_due_at: datetime | None
    missed: int
    executed_at: datetime
    container_id: str
    retry: RetryView | None
    timeout_seconds: float | None
    owner: str | None
    lease_until: datetime | None
    next_attempt_at: datetime | None
    check_at: datetime | None
    sent_again_at: datetime | None
    published_at: datetime | None
    resends: int
    started_at: datetime | None
    finished_at: datetime | None
    completed_at: datetime | None
    cancel_requested: bool
    last_error: str | None
    concurrency_key: str | None
    overlap_policy: str | None
    held_by: str | None
    expires_at: datetime | None
    topic: str | None
    no_listener: str | None
    crashed_at: tuple[datetime, ...]
    problem: str | None
    waits_for: str | None
    progress: float | None
    progress_text: str | None
    result: Any

    @property
    def called(self) -> str:
        return called(self.task, name=self.task_name, topic=self.topic)

    @classmethod
    def of(
        cls, execution: Execution, *, now: datetime, report: TaskReport = NOTHING_REPORTED
    ) -> Self:
        """Show an execution as it stands at *now*; *report* is of its last attempt."""
        new = {
            "trigger": trigger_of(execution.key),
            "status": outward_status(execution),
            "completed_at": completed_at(execution),
            "params": json_value(execution.params),
            "retry": None if execution.retry is None else RetryView.of(execution.retry),
            "held_by": execution.held_by if execution.state is State.HELD else None,
            "timeout_seconds": seconds(execution.timeout),
            "sent_again_at": sent_again_at(execution, now=now),
            "waits_for": what_it_waits_for(execution, now=now),
            "result": None if report.result is None else json_value(report.result),
        }
        return cls(**same(cls, execution) | same(cls, report) | new)


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
    moment = execution.check_at + Graces().of(execution.state)
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
    if begins is not None and begins > now and waits_for_its_turn(execution):
        return f"its turn at {say_moment(begins)}, as it {execution.last_error}"
    if begins is not None and begins > now:
        return f"its time, {say_moment(begins)}"
    if execution.state is State.CLAIMED:
        return f"a scheduler that hands it to the broker, for queue {execution.queue}"
    if is_standalone(execution.queue):
        return f"what keeps it running: {keeps_alive(execution.schedule_name)}"
    return f"a free place of a worker that serves queue {execution.queue}"


@attrs.frozen(kw_only=True)
class AttemptView:
    """One start of an execution. *ending* and *run_seconds* are None while it runs."""

    execution_id: int
    attempt: int
    node: str
    pid: int | None
    started_at: datetime
    finished_at: datetime | None
    run_seconds: float | None
    ending: str | None
    exit_code: int | None
    signal: int | None
    error: ErrorView | None
    peak_memory_bytes: int | None
    cpu_seconds: float | None
    left_running: int | None
    problem: str | None
    progress: float | None
    progress_text: str | None
    result: Any
    result_problem: str | None

    @classmethod
    def of(cls, attempt: Attempt, report: TaskReport = NOTHING_REPORTED) -> Self:
        ended = attempt.finished_at
        new = {
            "error": ErrorView.of(attempt.error),
            "peak_memory_bytes": attempt.peak_memory,
            "run_seconds": None if ended is None else seconds(ended - attempt.started_at),
            "result": None if report.result is None else json_value(report.result),
        }
        return cls(**same(cls, attempt) | same(cls, report) | new)


@attrs.frozen(kw_only=True)
class OutputView:
    """What an attempt wrote; *running* says that there may be more of it."""

    attempt: int
    stdout: Captured
    stderr: Captured
    as_of: datetime | None
    problem: str | None
    running: bool

    @classmethod
    def of(cls, output: Output, *, running: bool) -> Self:
        return cls(**same(cls, output), running=running)


@attrs.frozen(kw_only=True)
class ExecutionWithAttempts:
    """An execution, and each start of it, the oldest first."""

    execution: ExecutionView
    attempts: Sequence[AttemptView]


@attrs.frozen(kw_only=True)
class ExecutionWithOutput:
    """An execution, and what its attempts wrote, the oldest first, where there is anything."""

    execution: ExecutionView
    outputs: Sequence[OutputView]
