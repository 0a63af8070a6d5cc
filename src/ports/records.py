"""What people read from the ledger, and what they ask of it: runs, cancels, replays."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import attrs

from cronhare.domain.audit import KEPT_FOR
from cronhare.domain.lifecycle.archive import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.claims import DEFAULT_ALLOWANCE, Allowance

from .runner import NOTHING_REPORTED, TaskReport

if TYPE_CHECKING:  # a command that lists executions has no use for what diagnoses and audits
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from cronhare.domain.access import Session, Token
    from cronhare.domain.audit import AuditEntry, Intent, Result
    from cronhare.domain.execution import Execution, State
    from cronhare.domain.lifecycle.archive import (
        Archived,
        Failure,
        Unproven,
    )
    from cronhare.domain.retries.limits import Breaker, Budget
    from cronhare.domain.schedules.task import TaskRef
    from cronhare.ports.inspection import (
        LastClaim,
    )

    from .runner import Captured


@attrs.frozen(kw_only=True)
class Attempt:
    """One start of an execution; *ending* is None while it runs. A *problem* is its row's."""

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


@attrs.frozen(kw_only=True)
class Output:
    """What an attempt wrote; up to *as_of*, if that is given: it still runs, or was lost."""

    attempt: int
    stdout: Captured
    stderr: Captured
    as_of: datetime | None = None
    report: TaskReport = NOTHING_REPORTED
    problem: str | None = None


@attrs.frozen(kw_only=True)
class Reported:
    """What an attempt has reported, and how many bytes it has written; else as `Output`."""

    execution_id: int
    attempt: int
    report: TaskReport
    bytes: int
    as_of: datetime | None = None


@attrs.frozen(kw_only=True)
class Unheard:
    """How many events of a topic were completed although nobody listened, and the last of them."""

    topic: str
    count: int
    last_at: datetime


@attrs.frozen(kw_only=True)
class ExecutionFilter:
    """Which executions to list, newest first: claimed at *since* or later, and before *until*.

    *task* is a task's name, or its reference (`report 25`); *numbers* follow from it, for
    executions without a name. The next page is of those *before* the last id of this one.
    *stays_alive* asks for what `began_to_stay_alive`.
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
    """How long rows are kept, and how many (C13 in docs/compatibility.md): `ClassRetention`."""

    completed: timedelta = timedelta(seconds=604_800)
    completed_rows: int = 1_000
    failed: timedelta = timedelta(seconds=2_592_000)
    others: timedelta = timedelta(days=30)
    audit: timedelta = KEPT_FOR


@attrs.frozen(kw_only=True)
class QueueLoad:
    """The unfinished executions of one queue in one state; *oldest_due_at* if readable."""

    queue: str
    state: State
    executions: int
    oldest_due_at: datetime | None


class RecordsPort(Protocol):
    """The ledger as people see it. What it refuses is not done at all: `LedgerRefused`."""

    def executions(self, which: ExecutionFilter) -> Sequence[Execution]:
        """List executions, newest first."""

    def execution(self, execution_id: int) -> Execution | None:
        """Find one execution."""

    def attempts(self, execution_id: int) -> Sequence[Attempt]:
        """List the attempts of an execution, oldest first."""

    def output(self, execution_id: int, *, since: int = 1) -> Sequence[Output]:
        """List what an execution's attempts from *since* on wrote, if anything, oldest first."""

    def reported(self, execution_ids: Collection[int]) -> Sequence[Reported]:
        """List what the attempts of these have written and reported, if anything, oldest first."""

    def unheard(self, *, limit: int) -> Sequence[Unheard]:
        """Tell how many events nobody listened to (S3.3, C27), in the order of their topics."""

    def covering(self, scheduler_id: int, *, key: str, instant: datetime) -> Execution | None:
        """Find the execution of an instant: by its *key*, or the skipped row that covers it."""

    def last_runs(self, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
        """Find the newest execution of each that was not skipped; first what has not ended."""

    def queues(self) -> Sequence[QueueLoad]:
        """Count unfinished executions by queue and state."""

    def last_claim(self) -> LastClaim | None:
        """The newest claim of a due instant; None if there is none of late."""

    def archive(
        self,
        which: FailureFilter = UNRESOLVED,
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Archived]:
        """List the rows of the archive that a filter takes, newest first, with ids *before* one."""

    def archived(self, ids: Collection[int]) -> Sequence[Archived]:
        """Find rows of the archive, newest first, resolved or not."""

    def count_failures(self, which: FailureFilter) -> int:
        """Count the rows of the archive that a filter takes."""

    def keep_failure(
        self, failure: Failure, *, now: datetime, node: str
    ) -> Archived | Unproven | None:
        """Make sure that a failure which a worker reported, ours or not, is in the archive.

        Answers its new row; None if it needs none, because the ledger says so too. With a ticket it
        is about an attempt of ours, and judged by `Failure.judge`; what that does not let end
        anything is `Unproven`. Without one it gets an execution of its own, as if it had run here:
        it can be replayed. If its schedule is unknown, or the system's own, the row stands alone.

        Raises:
            LedgerBusy: another session holds its rows: ask later.
        """

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
        *params* replaces the schedule's own; its next due instant does not move. Repeating a *key*
        answers the run that is there. What stays alive gets no second run, whoever asks at once.

        Raises:
            RunsAlready: it stays alive, and has a run.
            NotToBeRun: see there; nothing was claimed.
            LedgerRefused: likewise.
        """

    def cancel(self, execution_id: int, *, now: datetime) -> State | None:
        """Request an execution's cancel; answers its state now, None if it is unknown.

        One that waits is cancelled at once; one that runs is soon stopped by its worker.
        """

    def replay(
        self,
        archived_ids: Collection[int],
        *,
        now: datetime,
        allowance: Allowance = DEFAULT_ALLOWANCE,
        head_start: timedelta = timedelta(0),
    ) -> Sequence[Execution]:
        """Replay failed or quarantined executions at once, with a fresh retry allowance.

        They are claimed anew, and their archive rows resolved, in one transaction; those that are
        resolved already are not answered. Of several rows of one execution the oldest is resolved.
        *head_start* is as in `run_now`. Many are for `ReplayStorePort`.
        """

    def discard(self, archived_ids: Collection[int], *, note: str, now: datetime) -> int:
        """Resolve archive rows without a run; answers how many."""

    def clean_up(self, *, now: datetime, retention: Retention) -> int:
        """Delete executions older than their *retention*, in bounded steps; answers how many.

        The archive stays, with the executions of its unresolved rows. What is refused is passed
        over. Idle limits of retries go as well.
        """


@attrs.frozen(kw_only=True)
class Run:
    """What a picture of many executions needs of one; see `Execution`."""

    id: int
    state: State
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int

    @property
    def seconds(self) -> float | None:
        """From its first start to its end, with the waits between attempts."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


@attrs.frozen
class Coming:
    """A schedule's next due instant."""

    name: str
    due_at: datetime


@attrs.frozen(kw_only=True)
class Counts:
    """How many runs are under way, failures await somebody, and alerts hold."""

    running: int
    retrying: int
    unresolved: int
    alerts: int


class OverviewPort(Protocol):
    """Asks for many at once."""

    def recent(self, scheduler_ids: Collection[int], *, each: int) -> Mapping[int, Sequence[Run]]:
        """List the newest runs of schedules, skipped ones too, oldest first, at most *each* of one.

        Those that have not ended are the newest. A schedule that has none is left out.
        """

    def coming(self, since: datetime, until: datetime, *, limit: int) -> Sequence[Coming]:
        """List the users' schedules due next from *since* on, before *until*, the first first."""

    def count_coming(self, since: datetime, until: datetime) -> Mapping[datetime, int]:
        """Count schedules, the system's too, by their next due instant in such a window."""

    def count_unplanned(self, *, most: int) -> int:
        """Count the users' enabled schedules whose newest edit nobody has planned, up to *most*.

        The cost grows with the number of schedules.
        """

    def waiting(self, since: datetime, *, limit: int) -> Sequence[int]:
        """List executions that were due before *since*, and have not begun: in no order."""

    def count(self, *, most: int) -> Counts:
        """Count up to *most* of each."""


@attrs.frozen(kw_only=True)
class Ran:
    """An attempt of an execution; *finished_at* and *ending* are None while it runs."""

    execution_id: int
    attempt: int
    scheduler_id: int
    schedule_name: str
    node: str
    started_at: datetime
    finished_at: datetime | None
    ending: str | None


@attrs.frozen(kw_only=True)
class RanInWindow:
    """Attempts, those of the newest executions first; without those claimed before *since*.

    None if all are here.
    """

    ran: Sequence[Ran]
    since: datetime | None = None


class LimitStorePort(Protocol):
    """Reads and resets limits; a broken row is left out, and told."""

    def budgets(self, *, limit: int) -> Sequence[Budget]:
        """List the budgets of the first *limit* queues that were asked for a retry, by name."""

    def budget(self, queue: str) -> Budget | None:
        """Find the budget of a queue."""

    def breakers(self, *, limit: int) -> Sequence[Breaker]:
        """List the breakers of the first *limit* tasks that failed under one, by the tasks."""

    def breaker(self, task: str) -> Breaker | None:
        """Find the breaker of a task: `report 25`."""

    def reset(self, task: str) -> bool:
        """Close a task's breaker, and let it count anew; False if it has none."""


@attrs.frozen(kw_only=True)
class AuditFilter:
    """Which entries are meant: all conditions hold, and None is no condition."""

    since: datetime | None = None
    actor: str | None = None
    target: str | None = None


class AuditStorePort(Protocol):
    """Keeps entries."""

    def begin(self, intents: Sequence[Intent]) -> Sequence[int]:
        """Write entries without an outcome, durably, all or none; answers their ids in order."""

    def finish(self, results: Sequence[Result]) -> None:
        """Write what became of entries. One that has its outcome keeps it; safe to repeat."""

    def entries(
        self, which: AuditFilter, *, before: int | None, limit: int
    ) -> Sequence[AuditEntry]:
        """List the newest *limit* entries, newest first; those with an id below *before*."""


class AccessStorePort(Protocol):
    """Keeps tokens and sessions by their digests."""

    def create(self, token: Token, *, now: datetime) -> bool:
        """Keep a token; False if another has its name and is valid. One that is not is replaced."""

    def tokens(self) -> Sequence[Token]:
        """List tokens by name, those as well that are no more valid."""

    def any_token(self) -> bool:
        """Whether a token was ever made."""

    def token(self, digest: str) -> Token | None:
        """Find a token by its digest, valid or not."""

    def used(self, digest: str, *, now: datetime) -> None:
        """Note that a token was used; nothing, if that was within `USED_EVERY`."""

    def revoke(self, name: str, *, now: datetime) -> Token | None:
        """Revoke a token, with its sessions; answers it, None if there is none. Safe to repeat."""

    def begin(self, session: Session, *, now: datetime) -> None:
        """Keep a session, and delete those that are over."""

    def session(self, digest: str) -> tuple[Session, Token] | None:
        """Find a session by the digest of its cookie, with the token that it was begun with."""

    def end(self, digest: str) -> None:
        """Delete a session. Safe to repeat."""
