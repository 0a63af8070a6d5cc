"""Running one attempt of a task."""

import enum
from datetime import datetime
from typing import Final, Protocol

import attrs

from cronhare.domain.retries.outcome import Ending, Outcome
from cronhare.domain.schedules.schedule import NOBODY, ScheduleOwner
from cronhare.domain.schedules.task import Task

#: Bytes of a result, as JSON without blanks.
LARGEST_RESULT: Final = 64 * 1024
#: A fraction is meant, but a task may count instead.
LARGEST_PROGRESS: Final = 10**15
#: In characters, with the middle left out.
LONGEST_PROGRESS_TEXT: Final = 200


@attrs.frozen(kw_only=True)
class TaskReport:
    """The last progress and the last result of an attempt.

    *progress* is between 0 and 1, or a count; *progress_text* is escaped already. *result* is JSON
    text, None if there is none. *result_problem* says why a later one was not taken.
    """

    progress: float | None = None
    progress_text: str | None = None
    result: str | None = None
    result_problem: str | None = None


#: Of most attempts.
NOTHING_REPORTED: Final = TaskReport()


@attrs.frozen(kw_only=True)
class Invocation:
    """What a task is given for one attempt.

    *params* is any JSON value. *deaths* counts the earlier attempts that ended badly: the task's
    `RETRY_COUNT`. *missed* counts the missed instants that the run makes up for, its own among them
    if that was missed. *previous_success* is when the last one was due that succeeded before, where
    its task wants to know. *fence* is its fencing token, see `Execution.fence`. *topic* is that of
    the event that it listens to, *trace* the `traceparent` of the span that it runs in.
    """

    execution_id: int
    execution_key: str
    scheduler_id: int
    schedule_name: str
    attempt: int
    deaths: int
    due_at: datetime
    fence: int
    task: Task
    params: object
    missed: int = 0
    previous_success: datetime | None = None
    owned_by: ScheduleOwner = NOBODY
    topic: str | None = None
    trace: str | None = None


@attrs.frozen(kw_only=True)
class Captured:
    """The first and last 64 KiB of a stream as text, and how many bytes it had in all.

    *tail* is empty while everything fits into *head*. *lines* counts the ends of lines, None where
    nobody has.
    """

    head: str = ""
    tail: str = ""
    bytes: int = 0
    lines: int | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def kept(self) -> int:
        """The bytes in *head* and *tail*, in UTF-8."""
        return len(self.head.encode()) + len(self.tail.encode())


#: What was captured of a stream into which nothing was written.
NOTHING_CAPTURED: Final = Captured()


@attrs.frozen(kw_only=True)
class AttemptResult:
    """One attempt that is over.

    *peak_memory* is in bytes, *cpu_seconds* user and system time; both are None if nothing was
    started. *left_running* counts the processes that it left in the background, which were killed;
    None if it did not end by itself. *unheard*: it was an event, and nobody listens.
    """

    outcome: Outcome
    pid: int | None = None
    peak_memory: int | None = None
    cpu_seconds: float | None = None
    left_running: int | None = None
    stdout: Captured = NOTHING_CAPTURED
    stderr: Captured = NOTHING_CAPTURED
    report: TaskReport = NOTHING_REPORTED
    unheard: bool = False

    @property
    def has_output(self) -> bool:
        """Whether it wrote or reported anything."""
        nothing = (NOTHING_CAPTURED, NOTHING_CAPTURED, NOTHING_REPORTED)
        return (self.stdout, self.stderr, self.report) != nothing


@attrs.frozen(kw_only=True)
class Written:
    """What a running attempt has written and reported so far: *reports* messages."""

    execution_id: int
    attempt: int
    stdout: Captured = NOTHING_CAPTURED
    stderr: Captured = NOTHING_CAPTURED
    report: TaskReport = NOTHING_REPORTED
    reports: int = 0

    @property
    def mark(self) -> int:
        """A number that grows with all that it writes, kept or not, and reports."""
        return self.stdout.bytes + self.stderr.bytes + self.reports

    @property
    def kept(self) -> int:
        return self.stdout.kept + self.stderr.kept


class StopReason(enum.Enum):
    """Why a running attempt is to end early."""

    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # shutdown
    WINDING_DOWN = "winding down"  # shutdown, and it has until INTERRUPTED, or longer, to end
    LEASE_LOST = "lease lost"  # another worker may own it by now: no grace

    @property
    def ending(self) -> Ending:
        """The ending of an attempt that was stopped for this."""
        match self:
            case StopReason.CANCELLED:
                return Ending.CANCELLED
            case StopReason.INTERRUPTED | StopReason.WINDING_DOWN:
                return Ending.INTERRUPTED
            case StopReason.LEASE_LOST:
                return Ending.LOST

    @property
    def said(self) -> str:
        """What the error of such an attempt says."""
        match self:
            case StopReason.CANCELLED:
                return "cancelled"
            case StopReason.INTERRUPTED | StopReason.WINDING_DOWN:
                return "interrupted: the worker shuts down"
            case StopReason.LEASE_LOST:
                return "ended: the worker lost its lease"


class TaskRunnerPort(Protocol):
    """Runs attempts, each isolated from us and from the others.

    Used from one event loop.
    """

    async def run(self, invocation: Invocation) -> AttemptResult:
        """Run one attempt to its end: not started, timed out, crashed are outcomes, too.

        When it returns, nothing of the attempt is left running. The task's timeout counts from the
        start, and anew from each progress report.
        """

    def stop(self, execution_id: int, reason: StopReason) -> bool:
        """Stop a running attempt: TERM, 5 seconds, KILL; KILL at once for a lost lease.

        To wind down is a TERM alone. `run` then returns `reason.ending`, unless the task ended by
        itself first. Safe to repeat. False if no such execution runs here.
        """

    def written(self, execution_id: int, *, beyond: int = 0) -> Written | None:
        """Give what a running attempt has written so far; None unless its `mark` is *beyond*."""

    async def close(self) -> None:
        """Kill all attempts that still run, and release all resources."""
