"""Claiming due instants, and finding what the broker should have and has not."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import attrs

from cronhare.domain.execution import Execution, Graces
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.orders import Order, Replay
from cronhare.domain.messages import AttemptRef
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.planning import Planner
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule


@attrs.frozen(kw_only=True)
class Batch:
    """What one look at the plans did.

    *looked* counts the schedules, *more* says whether others may be due; *claimed* are the
    executions that this call inserted, *held* counts those that gates hold back, *skipped* the
    instants recorded as skipped; *problems* pairs schedules that cannot be planned with the reason,
    where that is new. *busy* counts those left out for a minute, as another session holds their
    rows, or as the ledger refuses what is to be written. What *gates* wait for may have ended
    meanwhile: they are for `let_go`.
    """

    looked: int = 0
    more: bool = False
    claimed: tuple[Execution, ...] = ()
    held: int = 0
    skipped: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    busy: int = 0
    gates: tuple[str, ...] = ()

    @property
    def recorded(self) -> int:
        """How many instants were recorded."""
        return len(self.claimed) + self.held + self.skipped


@attrs.frozen(kw_only=True)
class LetGo:
    """What passed some gates: *executions* are claimed again, and to be published.

    *cancelled* are those that others replaced; what runs of them was asked to end. Others are at
    the *busy* gates just now.
    """

    executions: tuple[Execution, ...] = ()
    cancelled: tuple[Execution, ...] = ()
    busy: frozenset[str] = frozenset()


class ClaimStorePort(Protocol):
    """The plans and the claims. *now* is the ledger's own clock, `now()`, or a test's.

    `overdue`, `unfinished`, `lapsed` and `run_by` may answer executions with a *problem*: their
    rows are broken. By then they are quarantined, with a row in the archive, and found no more.
    One that could not be quarantined is answered as it was found, logged, and passed over for a
    minute by all but `unfinished`. What the ledger refuses is set apart (ADR 15); a method raises
    `LedgerRefused` only where not even that can be written.
    """

    def now(self) -> datetime:
        """The ledger's time: the one clock that decides what is due and what has lapsed."""

    def claim_due(
        self,
        *,
        now: datetime,
        limit: int,
        node: str,
        planner: Planner,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Batch:
        """Take up to *limit* plans that are due at *now*, claim what *planner* says, advance them.

        One transaction, which ends early once `INSTANTS_AT_ONCE` were looked at. Concurrent
        callers see disjoint plans, or wait; each key is claimed by exactly one of them, which
        alone is answered the execution. Plans due before *since* or after *until* are left out. A
        schedule that *planner* cannot plan stays due for others, as `cursor_after` says.
        """

    def plan_edited(
        self, *, now: datetime, since: datetime | None, limit: int, node: str, planner: Planner
    ) -> Batch:
        """Plan up to *limit* schedules that have no plan, or were edited after it was made.

        *since* bounds the search to rows that changed after it; None compares all. No call waits
        for a plan that another session holds.
        """

    def plan_problems(
        self,
        *,
        now: datetime,
        since: datetime | None,
        after: int,
        limit: int,
        node: str,
        planner: Planner,
    ) -> tuple[Batch, int]:
        """Plan up to *limit* schedules whose plans have a problem, by id, with ids above *after*.

        Answers the last id as well. An instant that was set aside is caught up as if it had been
        due since. *since* bounds the search to rows that changed after it, and are due for nobody.
        """

    def next_due(self, *, after: datetime | None = None) -> datetime | None:
        """The earliest due instant of all plans, or of those later than *after*; or None."""

    def mark_published(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """Note that these attempts' messages are in a queue, but for those that have moved on.

        A message that waits for its time (`next_attempt_at`) is overdue from then on. Each that is
        sent again waits longer, as `domain/execution.py` says.
        """

    def hand_over(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """End these, whose messages are in other programs' queues, unless they have moved on."""

    def doubt(self, *, since: datetime, now: datetime, after: int, limit: int) -> int | None:
        """Let *overdue* find what was last sent before *since*: the broker may have lost it.

        Looks at up to *limit* published or retrying executions with ids above *after*, by id;
        answers the id to go on from, or None at the end. One that waits for its time is found a
        little after it.
        """

    def overdue(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Execution]:
        """Find what should have begun and has not: claimed, published or retrying for too long.

        Finding one postpones its `check_at` a little. Concurrent callers get different ones.
        """

    def unfinished(self, *, after: int, limit: int) -> Sequence[Execution]:
        """List what is claimed, published or retrying with ids above *after*, by id."""

    def owners(self) -> Collection[str]:
        """Name the owners of all running attempts."""

    def lapsed(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        """Find running attempts whose lease has lapsed; one that ends at *now* has lapsed."""

    def run_by(self, nodes: Collection[str], *, limit: int) -> Sequence[Execution]:
        """Find the running attempts that *nodes* own, lapsed or not."""

    def end_waiting(self, *, now: datetime, limit: int) -> Sequence[Execution]:
        """End what waits and is not to begin any more; answers what has ended now.

        Where a person has written `cancel_requested` into its row it is cancelled. One that has
        never begun, and may begin no more by its `Execution.expires_at`, is skipped. No more
        than *limit* end in one call.
        """

    def let_go(self, gates: Collection[str], *, now: datetime) -> LetGo:
        """Let go what waits at these gates and is kept back no more, the earliest due first.

        What has a place at a gate is what runs, and what was claimed or let go and has not ended.
        Under `cancel_previous` the newest replaces those before it. No call waits for a row that
        another session has locked; it is to be called once whatever had a place has ended.
        """

    def gates(self, *, after: str, limit: int) -> Sequence[str]:
        """Name up to *limit* gates at which something waits, by name, beyond *after*."""

    def mark_ends_published(self, ends: Collection[AttemptRef]) -> None:
        """Note that the messages which follow these last attempts need not be sent again."""

    def overdue_ends(self, *, now: datetime, graces: Graces, limit: int) -> Sequence[Archived]:
        """Find unresolved ends of attempts whose messages may be in no queue, the earliest first.

        Finding one postpones its `check_at` by the grace. Concurrent callers get different ones.
        """


@attrs.frozen(kw_only=True)
class Advance:
    """One step of a replay: how it stands now, and what begins, to be published."""

    replay: Replay
    executions: Sequence[Execution] = ()


class ReplayStorePort(Protocol):
    """Keeps replays. Every call can be repeated, but for `order` without a request."""

    def order(self, order: Order, *, now: datetime, request: UUID | None = None) -> Replay:
        """Begin a replay of what the archive has now; or a backfill, by the schedule as it is then.

        A *request* that was made before is answered the replay that it began; of concurrent callers
        with one request exactly one begins it.
        """

    def asked_by(self, request: UUID) -> Replay | None:
        """Give the replay or backfill that a request began; None if it has begun none."""

    def have_run(self, scheduler_id: int, due: Sequence[datetime]) -> Collection[datetime]:
        """Give those of a schedule's instants that have a run: not one that was skipped."""

    def replays(self, *, limit: int, before: int | None = None) -> Sequence[Replay]:
        """List replays, the newest first; those *before* one of them, if it is given."""

    def replay(self, replay_id: int) -> Replay | None:
        """Find one."""

    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        """Stop an active replay: nothing of it begins any more. None if there is none."""

    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        """Let a stopped replay go on, without its rule to stop: a person has looked at it."""

    def advance(
        self,
        *,
        now: datetime,
        node: str,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
    ) -> Advance | None:
        """Take one step of the active replay that has waited longest; None if none is due.

        In one transaction, and by one caller at a time, it counts what has ended, looks at some
        more of the archive, decides (`next_step`), and lets as many begin as that says. What is
        locked rests for some seconds; what cannot be replayed is refused alone. A replay of which
        the database refuses something is stopped, and says why; one that cannot even be stopped
        rests for a minute, once the call has failed. *policy* holds for executions without one. Of
        a backfill each instant is claimed once, by *node*; one that has a run is refused alone.
        """


@attrs.frozen(kw_only=True)
class Enqueued:
    """The execution that has the key of a run: its id, and whether it is *new*."""

    id: int
    new: bool


class OtherDatabase(ValueError):
    """What was given as `on=` is no connection to the ledger's database, or cannot be used."""


class EnqueuePort(Protocol):
    """Claims runs that programs ask for, in a transaction of its own or in theirs.

    *on* is theirs: a connection or session of SQLAlchemy, a connection of a driver, or the alias of
    a database of Django. Nothing is committed or rolled back there, and what fails raises the
    driver's own errors. Of an asynchronous one its synchronous half is given.
    """

    def schedules(self, names: Collection[str]) -> Mapping[str, Schedule | BrokenSchedule]:
        """Find schedules by name; those that are missing are left out."""

    def check(self, on: object) -> None:
        """Make sure that *on* leads to the ledger's own database; asked once for each engine.

        Raises:
            OtherDatabase: it does not: the text names both.
        """

    def make(
        self, draft: ScheduleDraft, *, source: str, now: datetime, on: object | None
    ) -> Schedule:
        """Create a schedule unless its name is taken; answers it under the id that has the name."""

    def put(self, draft: ScheduleDraft, *, now: datetime, on: object) -> None:
        """Create a schedule of no source in their transaction, or have the one there say this."""

    def enqueue(self, runs: Sequence[Execution], *, on: object | None = None) -> Sequence[Enqueued]:
        """Insert executions whose keys are free; answers for each the one that has its key.

        All or none. A key that another transaction is about to take is waited for.

        Raises:
            KeyTaken: a key is that of an execution with other params.
            LedgerRefused: the ledger refuses a value.
        """

    def committed(self, ids: Collection[int]) -> Mapping[int, Execution]:
        """Read those of the executions that are committed."""

    def after_commit(self, on: object, call: Callable[[], None]) -> None:
        """Call back about when their transaction commits, if it tells; maybe just before."""
