"""The outbox: which targets are to be told of which events, and telling them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.events import Event, OutboxRow, OutboxState
from cronhare.domain.lifecycle.pings import RunEnd
from cronhare.domain.schedules.notify import Target
from cronhare.domain.schedules.task import TaskRef


@attrs.frozen(kw_only=True)
class MailContent:
    """What a mail says, where that is not the event itself."""

    subject: str
    text: str


class NotDelivered(Exception):
    """A target was not told of an event, or may not have heard of it.

    *asked* is how long it asks us to wait. *for_good* says that another try changes nothing,
    *in_part* that the target is well: some of its addresses took the event, others did not.
    """

    def __init__(
        self,
        reason: str,
        *,
        asked: timedelta | None = None,
        for_good: bool = False,
        in_part: bool = False,
    ) -> None:
        """Keep the reason, and say it."""
        self.asked = asked
        self.for_good = for_good
        self.in_part = in_part
        super().__init__(reason)


class NotifierPort(Protocol):
    """Tells targets: runs commands, asks servers, sends mail. Used from one event loop."""

    async def notify(
        self,
        target: Target,
        event: OutboxRow,
        mail: MailContent | None = None,
        end: RunEnd | None = None,
    ) -> None:
        """Tell a target of an event, within its timeout. A target may hear of it twice.

        A mail is the *mail*, if there is one. People are told of the *end* of its run as well.

        Raises:
            NotDelivered: with the reason, in a line.
        """
        ...

    async def close(self) -> None:
        """End what still runs, and release all resources."""
        ...


@attrs.frozen(kw_only=True)
class Expired:
    """What nobody will be told of: *failures* that no process took, and *rows* of the outbox.

    *more* says that there may be more to give up, or to delete.
    """

    failures: int = 0
    rows: int = 0
    more: bool = False


@attrs.frozen(kw_only=True)
class Page:
    """Executions of which somebody may be told; *next* is what the next page is after.

    None says that there was no more than this.
    """

    found: Sequence[Execution]
    next: int | None


class EventStorePort(Protocol):
    """The outbox of a ledger. Safe to share between threads, processes and hosts.

    What tests/integration/test_event_store_contract.py does not assert is not promised. Every
    method may raise `LedgerUnavailable`, and can be repeated: an event has at most one row for each
    target, whoever adds it, and how often.
    """

    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        """Find bad ends of *source* whose event is due, the earliest first.

        So are those without a source whose task has one of the numbers *refs*.
        """
        ...

    def announce(
        self,
        rows: Mapping[int, Sequence[OutboxRow]],
        *,
        now: datetime,
        until: datetime | None,
        once: Collection[str] = (),
    ) -> int:
        """Take care of bad ends: add what targets are to be told, and find them no more.

        By their numbers in the archive, all in one transaction. Of two callers one adds the rows of
        a bad end. With *until* they are found again from then on, as somebody else may be told. A
        recovery that is expected already is expected after the later bad end: until then targets
        that are told *once* are told of no other (`without_repeats`), unless telling them of the
        last was given up. Answers how many were taken.
        """
        ...

    def add(self, rows: Sequence[OutboxRow]) -> int:
        """Add what is not there yet; answers how many."""
        ...

    def waiting(self, targets: Collection[str], *, source: str) -> Mapping[str, int]:
        """Count what waits for each of these targets; those for which nothing does are left out."""
        ...

    def due(self, targets: Collection[str], *, source: str, due_by: datetime) -> Collection[str]:
        """Say for which of these targets something was due by then.

        That is never what happened more than `EXPIRES_AFTER` before: nobody is told of it any more.
        """
        ...

    def pending(
        self, target: str, *, source: str, due_by: datetime, most: int
    ) -> Mapping[str, int]:
        """Count what was `due` by then for a target by the kinds of events; at most *most*."""
        ...

    def take(
        self,
        target: str,
        *,
        source: str,
        now: datetime,
        lease: timedelta,
        node: str,
        limit: int,
        kind: str | None = None,
        due_by: datetime | None = None,
    ) -> Sequence[OutboxRow]:
        """Take what is `due` for a target, the earliest first; each is one caller's for the lease.

        Of one *kind* of events, and what was *due_by* another time than *now*, if these are given.
        A try is counted before it is begun. After the lease it is due for all.
        """
        ...

    def settle(
        self,
        row: OutboxRow,
        state: OutboxState,
        *,
        now: datetime,
        next_try_at: datetime | None = None,
        error: str | None = None,
    ) -> bool:
        """Note what came of a try; False if another process has begun the next one."""
        ...

    def tell_anew(self, rows: Collection[OutboxRow], *, before: datetime, now: datetime) -> int:
        """Let what was given up or has expired *before* be due as if it were new.

        *rows* are what is to be told now, which may say something else than when it was given up.
        Answers how many of them had been. What a clock gave up that has been set back since
        (`was_ahead`) is due at once.
        """
        ...

    def expected(self, *, source: str, after: int, limit: int) -> Sequence[OutboxRow]:
        """List the recoveries that are expected, by rising ids beyond *after*."""
        ...

    def first_success(
        self, scheduler_id: int, *, after: datetime, by: datetime
    ) -> Execution | None:
        """Find the first execution of a schedule that has succeeded *after* a time, and *by* now.

        What ended later than now was noted by a clock ahead: it may have come before the bad end.
        """
        ...

    def recover(self, expected: OutboxRow, event: Event, *, now: datetime) -> bool:
        """Tell of a recovery from now on.

        False if somebody else does, or a later bad end was announced since *expected* was read.
        """
        ...

    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        """Give the names of schedules of a source by their ids."""
        ...

    def arrivals(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        """Find due instants that were claimed to run at *since* or later; in pages as `skips`.

        Left out are what was skipped, and runs that no due instant began: by hand, at a start or a
        boot, of a backfill, of what stays alive.
        """
        ...

    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        """Find what was recorded as skipped at *since* or later, by rising ids beyond *after*.

        Whoever asks for page after page finds each of them, however many there are.
        """
        ...

    def begun_late(
        self,
        scheduler_ids: Collection[int],
        *,
        by: timedelta,
        now: datetime,
        since: datetime,
        after: int,
        limit: int,
    ) -> Page:
        """Find what began more than *by* after it was due, or has not begun until then.

        Looked at is what has not ended, begun or not; and what has succeeded or failed at *since*
        or later (`MAY_BE_LATE`). So whoever looks back so far finds what began late and ended while
        nobody looked. Left out are what a backfill asks for, which is late on purpose, and what
        was replayed, its first attempt long over.

        In pages as `skips`, but *limit* counts what is looked at: a page may hold less, or nothing,
        and not be the last.
        """
        ...

    def begun_or_ended(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        """Find runs that run, or ended at *since* or later and well or badly; in pages as `skips`.

        Left out is what was cancelled, skipped or handed over.
        """
        ...

    def run_ends(self, execution_ids: Collection[int]) -> Mapping[int, RunEnd]:
        """Say how the last attempts of runs ended, and what they wrote last."""
        ...

    def regain(self, *, farthest: datetime, now: datetime) -> int:
        """Let what waits until after *farthest* be due now; answers how much that was.

        No wait reaches so far: a clock was ahead when it began, and has been set right since. A
        recovery that is expected after a bad end to come is expected from now on. In bounded steps:
        the rest is found by the next call.
        """
        ...

    def expire(
        self, *, before: datetime, kept_since: datetime, expected_since: datetime, now: datetime
    ) -> Expired:
        """Give up what happened *before* and was not told; delete what is over since *kept_since*.

        A recovery is expected for longer, as its schedule may be rare: after a bad end that came
        before *expected_since* no more. What somebody has taken, or tries again later, is given up
        after that.

        In bounded steps: the rest is found by the next call.
        """
        ...

    def told(self, event_keys: Collection[str]) -> Mapping[str, Collection[str]]:
        """Give the targets that have heard of events, by their keys; rows are kept for a month."""
        ...

    def deliveries(self, beginnings: Collection[str]) -> Sequence[OutboxRow]:
        """List the rows of events whose keys have one of these beginnings, up to a hex digit."""
        ...

    def failing(self, target: str, *, source: str) -> OutboxRow | None:
        """Give the event that a target fails with: it was tried in vain, and is to be tried again.

        Of several such events it is the one whose next try is latest. None if there is none; events
        that nobody has tried yet may wait all the same.
        """
        ...

    def rows(
        self, *, states: Collection[OutboxState] = (), schedule: str | None = None, limit: int
    ) -> Sequence[OutboxRow]:
        """List the outbox, newest first."""
        ...
