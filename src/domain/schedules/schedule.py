"""A schedule: what is due when, and what may be done about a moment that was missed."""

import enum
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

import attrs
import msgspec

from ..cron import CronExpression
from ..retries.retry import RetryPolicy
from ..topology import MAIN_QUEUE
from .keys import cron_key, once_key
from .task import TaskRef

#: The zone of a schedule that names none.
DEFAULT_ZONE = "UTC"

#: So many runs at once may a schedule ask for, in a file as in a row.
CAPS = range(1, 10_000 + 1)

#: The longest texts of a row, in letters: MySQL's columns hold no more, SQLite's hold anything.
LONGEST_NAME = 255
LONGEST_EXPRESSION = 255
LONGEST_ZONE = 64

#: How the names of the system's own schedules begin: nobody else's may.
SYSTEM_PREFIX = "cronhare-"
#: The one that deletes old history.
CLEANUP_NAME = f"{SYSTEM_PREFIX}cleanup"


class MisfirePolicy(enum.StrEnum):
    """What to do with instants that nobody claimed in time."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OverlapPolicy(enum.StrEnum):
    """Whether a run may begin while an earlier one of the same schedule has not ended."""

    ALLOW = "allow"
    SKIP = "skip"


@attrs.frozen(kw_only=True)
class Misfire:
    """How far back to catch up: never beyond *window*, never more than *cap* runs at once."""

    policy: MisfirePolicy = MisfirePolicy.ONCE
    window: timedelta = timedelta(days=7)
    cap: int = 100


#: What is done with missed instants, and beside an earlier run, unless a schedule says otherwise.
DEFAULT_MISFIRE = Misfire()
DEFAULT_OVERLAP = OverlapPolicy.ALLOW


class Timing(Protocol):
    """When a schedule is due, as instants in UTC."""

    def next(self, after: datetime) -> datetime | None:
        """Give the first due instant strictly after *after*."""
        ...

    def previous(self, before: datetime) -> datetime | None:
        """Give the last due instant strictly before *before*."""
        ...

    def key(self, due: datetime) -> str:
        """Give the execution key of a due instant."""
        ...


@attrs.frozen
class Recurring:
    """Due whenever a cron expression says so in its zone."""

    expression: CronExpression
    zone: ZoneInfo

    def next(self, after: datetime) -> datetime | None:
        """See `Timing.next`."""
        return self.expression.next(after, self.zone)

    def previous(self, before: datetime) -> datetime | None:
        """See `Timing.previous`."""
        return self.expression.previous(before, self.zone)

    def key(self, due: datetime) -> str:
        """See `Timing.key`."""
        return cron_key(due)


def _utc_minute(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


@attrs.frozen
class Once:
    """Due at one instant; its seconds are cut, as cron's grain is the minute."""

    at: datetime = attrs.field(converter=_utc_minute)

    def next(self, after: datetime) -> datetime | None:
        """See `Timing.next`."""
        return self.at if self.at > after else None

    def previous(self, before: datetime) -> datetime | None:
        """See `Timing.previous`."""
        return self.at if self.at < before else None

    def key(self, due: datetime) -> str:
        """See `Timing.key`."""
        return once_key(due)


@attrs.frozen
class ByHand:
    """Never due by itself: it runs when somebody asks."""

    def next(self, after: datetime) -> datetime | None:  # noqa: ARG002 - the protocol's shape
        """See `Timing.next`."""
        return None

    def previous(self, before: datetime) -> datetime | None:  # noqa: ARG002 - likewise
        """See `Timing.previous`."""
        return None

    def key(self, due: datetime) -> str:
        """Name an instant that was due before the schedule was changed to run by hand."""
        return cron_key(due)


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the users' table, understood.

    *source* is the jobs file that it came from, and *task_name* its task's name there; a row that
    somebody wrote by hand has neither, and only the *task*'s number. *params* is JSON text.
    *changed_at* is when the row was created, edited or enabled: no
    instant from before it is ever run. None for *retry* and *timeout* means the
    system's and the task's own.
    """

    id: int
    name: str
    task: TaskRef
    timing: Recurring | Once | ByHand
    changed_at: datetime
    source: str | None = None
    task_name: str | None = None
    params: str = "{}"
    enabled: bool = True
    retry: RetryPolicy | None = None
    misfire: Misfire = DEFAULT_MISFIRE
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    timeout: timedelta | None = None
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    queue: str = MAIN_QUEUE

    @property
    def is_system(self) -> bool:
        """Whether it is the system's own: no message runs anything in its name."""
        return self.task.is_system or self.name == CLEANUP_NAME

    def next(self, after: datetime) -> datetime | None:
        """Give the first instant after *after* at which it is to run, or None."""
        if not self.enabled:
            return None
        if self.starts_at is not None and self.starts_at > after:
            after = self.starts_at - timedelta(microseconds=1)
        due = self.timing.next(after)
        return None if due is None or self._has_ended(due) else due

    def _has_ended(self, due: datetime) -> bool:
        return self.ends_at is not None and due > self.ends_at


@attrs.frozen(kw_only=True)
class BrokenSchedule:
    """A row that cannot be understood, after an UPDATE by hand, say. It is never due."""

    id: int
    name: str
    problem: str
    changed_at: datetime
    source: str | None = None
