"""Events and alerts: which targets are to be told of what, and telling them."""

import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, Self

import attrs

from cronhare.domain.events.alerts import Alert
from cronhare.domain.events.events import Event
from cronhare.domain.events.judging import ScheduleSigns, Signs, SystemSigns
from cronhare.domain.events.outbox import OutboxRow, OutboxState, RunEnd
from cronhare.domain.events.rules import ABOUT
from cronhare.domain.events.targets import Target
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.schedules.task import TaskRef

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE: Final = re.compile(r"(held|over)-(-[0-9]{1,16}|[0-9]{1,17})-(.{1,255})")


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

    async def close(self) -> None:
        """End what still runs, and release all resources."""


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
    """The outbox: an event has at most one row for each target, whoever adds it, how often."""

    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        """Find bad ends whose event is due, of *source* or of tasks *refs* without one, by time."""

    def announce(
        self,
        rows: Mapping[int, Sequence[OutboxRow]],
        *,
        now: datetime,
        until: datetime | None,
        once: Collection[str] = (),
    ) -> int:
        """Add what targets are to be told of bad ends, by their numbers in the archive.

        All in one transaction; of two callers one adds the rows of a bad end, and is answered in
        the count. They are found no more, or with *until* from then on, as somebody else may be
        told. A recovery that is expected already is expected after the later bad end: until then
        targets that are told *once* hear of no other (`without_repeats`), unless telling them of
        the last was given up. One whose rows are refused is told to nobody; the others are.
        """

    def add(self, rows: Sequence[OutboxRow], *, now: datetime) -> bool:
        """Add what is not there yet; False if some of it is locked: add it once more.

        What is refused is logged, and left out for a minute.
        """

    def waiting(self, targets: Collection[str], *, source: str) -> Mapping[str, int]:
        """Count what waits for each of these targets; without those for which nothing does."""

    def due(self, targets: Collection[str], *, source: str, due_by: datetime) -> Collection[str]:
        """Say for which targets something was due by then, unless older than `EXPIRES_AFTER`."""

    def pending(
        self, target: str, *, source: str, due_by: datetime, most: int
    ) -> Mapping[str, int]:
        """Count what was `due` by then for a target, by the kinds of events; at most *most*."""

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

        *kind* is one of events, *due_by* another time than *now*. A try is counted as it begins.
        """

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

    def tell_anew(self, rows: Collection[OutboxRow], *, before: datetime, now: datetime) -> int:
        """Let what was given up or has expired *before* be due as if it were new; says how many.

        *rows* are what is to be told now, which may differ from what was given up.
        """

    def expected(self, *, source: str, after: int, limit: int) -> Sequence[OutboxRow]:
        """List the recoveries that are expected, by rising ids beyond *after*."""

    def first_success(
        self, scheduler_id: int, *, after: datetime, by: datetime
    ) -> Execution | None:
        """Find a schedule's first execution that has succeeded *after* a time, and *by* now."""

    def recover(self, expected: OutboxRow, event: Event, *, now: datetime) -> bool:
        """Tell of a recovery; False if another does, or a later bad end has been announced."""

    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        """Give the names of schedules of a source by their ids."""

    def arrivals(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        """Find what due instants began at *since* or later; in pages as `skips`.

        Not what was skipped, or begun by hand, at a start or boot, by a backfill, to stay alive.
        """

    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        """Find what was recorded as skipped at *since* or later, by rising ids beyond *after*."""

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

        Of what has not ended, or ended at *since* or later (`MAY_BE_LATE`); not of a backfill,
        which is late on purpose, or a replay. In pages as `skips`, but *limit* counts what is
        looked at: a page may hold less, or nothing, and not be the last.
        """

    def begun_or_ended(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        """Find runs that run, or succeeded or failed at *since* or later; in pages as `skips`."""

    def run_ends(self, execution_ids: Collection[int]) -> Mapping[int, RunEnd]:
        """Say how the last attempts of runs ended, and what they wrote last."""

    def expire(
        self, *, before: datetime, kept_since: datetime, expected_since: datetime, now: datetime
    ) -> Expired:
        """Give up what happened *before* and was not told; delete what is over since *kept_since*.

        A recovery is expected no more after a bad end before *expected_since*. What somebody has
        taken, or tries again later, is given up after that. In bounded steps: the rest by
        the next call.
        """

    def deliveries(self, beginnings: Collection[str]) -> Sequence[OutboxRow]:
        """List the rows of events whose keys have one of these beginnings, up to a hex digit.

        They are kept for a month.
        """

    def failing(self, target: str, *, source: str) -> OutboxRow | None:
        """Give the event that was tried in vain for a target, and whose next try is the latest."""

    def rows(
        self, *, states: Collection[OutboxState] = (), schedule: str | None = None, limit: int
    ) -> Sequence[OutboxRow]:
        """List the outbox, newest first."""


@attrs.frozen(kw_only=True)
class AlertChanges:
    """What `keep` has changed."""

    raised: Collection[Alert] = ()
    cleared: Collection[Alert] = ()


@attrs.frozen(kw_only=True)
class AlertFilter:
    """Which alerts: None is whichever. Those that are *cleared* are listed after what holds."""

    rule: str | None = None
    severity: str | None = None
    schedule: str | None = None
    cleared: bool = False

    @property
    def rules(self) -> frozenset[str]:
        """The rules of which these are: how bad an alert is comes from its rule."""
        return frozenset(
            rule
            for rule, about in ABOUT.items()
            if self.rule in {None, rule} and self.severity in {None, about.severity}
        )


@attrs.frozen
class AlertPlace:
    """Where an alert stands in the list: what holds since *at*, then what is *over* since then."""

    over: bool
    at: datetime
    key: str

    @classmethod
    def of(cls, alert: Alert) -> Self:
        return cls(alert.cleared_at is not None, alert.cleared_at or alert.raised_at, alert.key)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Read a place as it is written; None if it is none.

        >>> str(AlertPlace.read("held-1772452800000000-queue:1f0c")), AlertPlace.read("7")
        ('held-1772452800000000-queue:1f0c', None)
        """
        if (found := _PLACE.fullmatch(text)) is None:
            return None
        return cls(found[1] == "over", _EPOCH + timedelta(microseconds=int(found[2])), found[3])

    def __str__(self) -> str:
        micros = (self.at - _EPOCH) // timedelta(microseconds=1)
        return f"{'over' if self.over else 'held'}-{micros}-{self.key}"


class AlertStorePort(Protocol):
    """Keeps alerts, for all processes together.

    Those of schedules are kept by the *source* of the file that asks for them; those of the whole
    ledger have none.
    """

    def begin(
        self,
        *,
        now: datetime,
        every: timedelta,
        source: str | None = None,
    ) -> bool:
        """Begin to judge those of a source: of all callers one may, if nobody began in *every*.

        Who began before and has not kept anything yet is waited for, until twice *every*.
        """

    def signs(self, *, now: datetime, retries: int) -> Signs:
        """Read what alerts are judged by, at a cost that does not grow with the ledger.

        More than *retries* of an execution are too many.
        """

    def system_signs(self, *, now: datetime, served: Collection[str]) -> SystemSigns:
        """Read who waits for a scheduler, the broker or a worker, but for the nodes themselves.

        What waits in the queues that are *served* is not looked at. The cost grows with what waits.
        """

    def schedule_signs(
        self, scheduler_ids: Collection[int], *, usual: Collection[int], now: datetime
    ) -> Sequence[ScheduleSigns]:
        """Read how runs of due instants went; of *usual* schedules also what is usual.

        That is read for what runs, or ended last, and took so long that it may alert. The cost
        grows with the number of schedules, and with what of them has not ended.
        """

    def of_no_file(
        self, refs: Collection[TaskRef], *, limit: int
    ) -> Mapping[int, tuple[str, TaskRef]]:
        """Find the enabled schedules that no jobs file has, and whose task is one of *refs*."""

    def keep(
        self,
        alerts: Collection[Alert],
        *,
        now: datetime,
        ended_at: datetime,
        source: str | None = None,
    ) -> AlertChanges:
        """Note what held of a source at *now*, when judging began; it has ended at *ended_at*.

        Each change is made by one judge: nothing is noted when another has ended that had begun
        after *now*. Where nobody had ended judging for `UNJUDGED_AFTER`, what held before counts as
        held until *now*. What has not held for `CLEAR_AFTER` is cleared, and forgotten
        `CLEARED_KEPT` later; so is what nobody has judged for as long, of other sources.
        """

    def judged_at(self) -> datetime | None:
        """Say when judging the whole ledger ended last; None where nobody has ended it ever."""

    def revision(self) -> Hashable:
        """Give what differs after each alert that is raised, cleared or forgotten; it is cheap."""

    def page(
        self, which: AlertFilter, *, after: AlertPlace | None, limit: int | None
    ) -> tuple[Sequence[Alert], bool]:
        """List alerts in the order of their places, at most *limit*, and say if others follow.

        Those that are cleared are listed until they are forgotten, or raised again.
        """
