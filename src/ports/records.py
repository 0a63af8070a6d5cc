"""What people read from the ledger, and what they ask of it: runs, cancels, replays."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from cronhare.domain.access.audit import KEPT_FOR
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.replay import DEFAULT_ALLOWANCE, Allowance
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.task_report import NOTHING_REPORTED, TaskReport

from .runner import AttemptResult, Captured

if TYPE_CHECKING:
    # Here: a list of executions has no failures, and diagnoses nothing.
    from cronhare.domain.diagnosis.overdue import LastClaim
    from cronhare.domain.lifecycle.archive import Archived
    from cronhare.domain.lifecycle.failures import Failure, Unproven


@attrs.frozen(kw_only=True)
class Attempt:
    """One start of an execution, as the ledger keeps it. *ending* is None while it runs.

    *problem* says what is wrong with its row, if it is broken.
    """

    execution_id: int
    attempt: int
    node: str
    started_at: datetime
    finished_at: datetime | None = None
    ending: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    pid: int | None = None
    error: str | None = None
    peak_memory: int | None = None
    cpu_seconds: float | None = None
    left_running: int | None = None
    problem: str | None = None

    @staticmethod
    def end(ran: AttemptResult, now: datetime) -> dict[str, Any]:
        """Give the fields of the row that its end writes."""
        outcome = ran.outcome
        return {
            "finished_at": now,
            "ending": outcome.ending.value,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "pid": ran.pid,
            "error": None if outcome.error is None else outcome.error.as_json(),
            "peak_memory": ran.peak_memory,
            "cpu_seconds": ran.cpu_seconds,
            "left_running": ran.left_running,
        }


@attrs.frozen(kw_only=True)
class Output:
    """What an attempt wrote; up to *as_of*, if that is given: it still runs, or was lost.

    *problem* is as in `Attempt`.
    """

    attempt: int
    stdout: Captured
    stderr: Captured
    as_of: datetime | None = None
    report: TaskReport = NOTHING_REPORTED
    problem: str | None = None


@attrs.frozen(kw_only=True)
class Reported:
    """What an attempt has reported, and how much it has written, without the output itself.

    *as_of* and *problem* are as in `Output`.
    """

    execution_id: int
    attempt: int
    report: TaskReport
    bytes: int
    as_of: datetime | None = None
    problem: str | None = None


@attrs.frozen(kw_only=True)
class Unheard:
    """How many events of a topic were completed although nobody listened, and the last of them.

    It is the metric `app_schedule_job_no_listener_total` (S3.3 in docs/compatibility.md). An event
    that a row or a message numbers is called by its type and number.
    """

    topic: str
    count: int
    last_at: datetime


@attrs.frozen(kw_only=True)
class ExecutionFilter:
    """Which executions to list, newest first: claimed at *since* or later, and before *until*.

    *task* is a task's name, or its reference (`report 25`); *numbers* are those that a task of that
    name has, for executions without a name, and follow from it. The next page is of those *before*
    the last id of this one. With *stays_alive* they are those alone that were begun to stay alive:
    see `began_to_stay_alive`.
    """

    schedule: str | None = None
    task: str | None = None
    numbers: tuple[TaskRef, ...] = attrs.field(default=(), eq=False)
    concurrency_key: str | None = None
    states: Collection[State] = ()
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None
    stays_alive: bool = False
    limit: int = 20


@attrs.frozen(kw_only=True)
class Retention:
    """How long rows are kept (C13 in docs/compatibility.md).

    *completed_rows* is per schedule; runs at a boot in the last day are kept in addition. What is
    kept of a class of tasks stands in the rows of its schedules; see `ClassRetention`.
    """

    completed: timedelta = timedelta(seconds=604_800)
    completed_rows: int = 1_000
    failed: timedelta = timedelta(seconds=2_592_000)
    others: timedelta = timedelta(days=30)
    audit: timedelta = KEPT_FOR


@attrs.frozen(kw_only=True)
class QueueLoad:
    """The unfinished executions of one queue in one state.

    *oldest_due_at* is None only if their rows are broken.
    """

    queue: str
    state: State
    executions: int
    oldest_due_at: datetime | None


class RecordsPort(Protocol):
    """The ledger as people see it. Every method may raise `LedgerUnavailable`.

    What the ledger refuses is not done at all: `LedgerRefused`. Only `clean_up` passes over it.

    What tests/integration/test_records_contract.py does not assert is not promised.
    """

    def executions(self, which: ExecutionFilter) -> Sequence[Execution]:
        """List executions, newest first."""
        ...

    def execution(self, execution_id: int) -> Execution | None:
        """Find one execution."""
        ...

    def attempts(self, execution_id: int) -> Sequence[Attempt]:
        """List the attempts of an execution, oldest first."""
        ...

    def output(self, execution_id: int, *, since: int = 1) -> Sequence[Output]:
        """List the outputs of an execution's attempts from *since* on, oldest first.

        Empty ones are left out.
        """
        ...

    def reported(self, execution_ids: Collection[int]) -> Sequence[Reported]:
        """List what the attempts of these executions have reported, oldest attempt first.

        Those that wrote and reported nothing are left out.
        """
        ...

    def unheard(self, *, limit: int) -> Sequence[Unheard]:
        """Tell how many events nobody listened to (S3.3, C27), in the order of their topics."""
        ...

    def covering(self, scheduler_id: int, *, key: str, instant: datetime) -> Execution | None:
        """Find the execution of an instant: by its *key*, or the skipped row that covers it."""
        ...

    def last_runs(self, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
        """Find the newest execution of each schedule that was not skipped.

        One that has not ended counts as newer than those that have.
        """
        ...

    def queues(self) -> Sequence[QueueLoad]:
        """Count unfinished executions by queue and state."""
        ...

    def last_claim(self) -> "LastClaim | None":
        """The newest claim of a due instant; None if there is none of late."""
        ...

    def archive(
        self,
        which: FailureFilter = UNRESOLVED,
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> "Sequence[Archived]":
        """List the rows of the archive that a filter takes, newest first.

        The next page is of those *before* the last id of this one.
        """
        ...

    def archived(self, ids: Collection[int]) -> "Sequence[Archived]":
        """Find rows of the archive, newest first, resolved or not."""
        ...

    def count_failures(self, which: FailureFilter) -> int:
        """Count the rows of the archive that a filter takes."""
        ...

    def keep_failure(
        self, failure: "Failure", *, now: datetime, node: str
    ) -> "Archived | Unproven | None":
        """Make sure that a failure which a worker reported, ours or not, is in the archive.

        Answers its new row; None if it needs none, because the ledger says so too.

        With a ticket it is about an attempt of ours. It ends one that waits only if it is `proven`,
        and one that was handed over in any case: see `Failure.judge`. Otherwise nothing changes,
        and the answer is `Unproven` unless that attempt of that schedule has failed for good.

        Without a ticket it gets an execution of its own, as if it had run here: it can be
        replayed. If its schedule is unknown, or the system's own, the row stands alone.

        Raises:
            LedgerBusy: another session holds its rows: ask later.
        """
        ...

    def run_now(
        self,
        scheduler_id: int,
        *,
        key: str,
        params: str | None,
        now: datetime,
        node: str,
        head_start: timedelta = timedelta(0),
    ) -> Execution:
        """Claim a manual run, to be published by the next reconciler that looks.

        With a *head_start* the caller publishes it, and reconcilers leave it alone for so long.
        *params* replaces the schedule's own. The schedule's next due instant does not move.
        Repeating a *key* answers the run that is there. What stays alive gets no second run: of
        concurrent callers exactly one begins it.

        Raises:
            RunsAlready: it stays alive, and has a run.
            NotToBeRun: see there; nothing was claimed.
            LedgerRefused: likewise.
        """
        ...

    def cancel(self, execution_id: int, *, now: datetime) -> State | None:
        """Request an execution's cancel; answers its state now, None if it is unknown.

        One that waits is cancelled at once; one that runs is soon stopped by its worker.
        """
        ...

    def replay(
        self,
        archived_ids: Collection[int],
        *,
        now: datetime,
        allowance: Allowance = DEFAULT_ALLOWANCE,
        head_start: timedelta = timedelta(0),
    ) -> Sequence[Execution]:
        """Replay failed or quarantined executions at once, with a fresh retry allowance.

        *head_start* is as in `run_now`.

        They are claimed anew, and their archive rows resolved, in one transaction; those that
        are resolved already are left alone and not answered. Of several rows of one execution the
        oldest is resolved; the others wait for another replay. Many are for `ReplayStorePort`.
        """
        ...

    def discard(self, archived_ids: Collection[int], *, note: str, now: datetime) -> int:
        """Resolve archive rows without a run; answers how many."""
        ...

    def clean_up(
        self, *, now: datetime, retention: Retention, between: Callable[[], None] = lambda: None
    ) -> int:
        """Delete executions older than their *retention*, in bounded steps; answers how many.

        *between* is called after each step; what it raises ends the cleanup. The archive stays, and
        so do the executions of its unresolved rows: they can still be inspected, and replayed.
        Limits of retries that were idle for long are deleted as well, and not counted.
        """
        ...
