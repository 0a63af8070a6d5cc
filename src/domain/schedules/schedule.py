"""A schedule: when it is due, and what its misfire and overlap policies are."""

import enum
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeAlias
from zoneinfo import ZoneInfo

import attrs
import msgspec

from ..cron import AS_CRON, ClockChanges, CronExpression
from ..reading import Duration, whole_number
from ..retries.policy import RetryPolicy
from ..topology import MAIN_QUEUE
from .concurrency import Concurrency
from .conditions import Conditions
from .every import Every
from .keys import cron_key, once_key
from .task import TaskRef
from .topic import NoListener

DEFAULT_ZONE = "UTC"

#: How many missed runs a schedule may catch up at once.
CAPS = range(1, 10_000 + 1)

#: The longest texts of a row, in characters: MySQL's columns hold no more, SQLite's anything.
LONGEST_NAME = 255
LONGEST_EXPRESSION = 255
LONGEST_ZONE = 64

#: How only the names of the system's own schedules begin.
SYSTEM_PREFIX = "cronhare-"
#: The schedule that deletes old history.
CLEANUP_NAME = f"{SYSTEM_PREFIX}cleanup"


class MisfirePolicy(enum.StrEnum):
    """What to do with instants that were not claimed in time."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OverlapPolicy(enum.StrEnum):
    """Whether a run may begin while an earlier one of the same schedule has not ended.

    Under the last three it waits in the ledger until that one has; see `lifecycle/gates.py`.
    """

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"  # and while one waits, others are skipped
    QUEUE_ALL = "queue_all"
    CANCEL_PREVIOUS = "cancel_previous"

    @property
    def waits(self) -> bool:
        """Whether a run waits for those before it."""
        return self in _WAITING

    @property
    def alone(self) -> "OverlapPolicy":
        """What holds of a schedule with `stay_alive`, which has one run at a time."""
        return OverlapPolicy.SKIP if self is OverlapPolicy.ALLOW else self


# No set: an enum's hash takes longer than to compare three.
_WAITING = (OverlapPolicy.QUEUE_ONE, OverlapPolicy.QUEUE_ALL, OverlapPolicy.CANCEL_PREVIOUS)

#: So many runs of one schedule may wait for those before them; further ones are skipped.
MOST_WAITING = 1_000


@attrs.frozen(kw_only=True)
class Misfire:
    """How far back to catch up: never beyond *window*, never more than *cap* runs at once."""

    policy: MisfirePolicy = MisfirePolicy.ONCE
    window: Duration = timedelta(days=7)
    cap: Annotated[int, whole_number(CAPS)] = 100


DEFAULT_MISFIRE = Misfire()
DEFAULT_OVERLAP = OverlapPolicy.ALLOW


@attrs.frozen
class Recurring:
    """Due whenever a cron expression says so in its zone; *changes* are those of its clock."""

    expression: CronExpression
    zone: ZoneInfo
    changes: ClockChanges = AS_CRON

    def next(self, after: datetime) -> datetime | None:
        """Give the first due instant strictly after *after*, in UTC."""
        return self.expression.next(after, self.zone, self.changes)

    def previous(self, before: datetime) -> datetime | None:
        """Give the last due instant strictly before *before*, in UTC."""
        return self.expression.previous(before, self.zone, self.changes)

    def key(self, due: datetime) -> str:
        """Give the execution key of a due instant."""
        return cron_key(due)


def _utc_minute(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


@attrs.frozen
class Once:
    """Due at one instant, cut to the minute, as cron is."""

    at: datetime = attrs.field(converter=_utc_minute)

    def next(self, after: datetime) -> datetime | None:
        return self.at if self.at > after else None

    def previous(self, before: datetime) -> datetime | None:
        return self.at if self.at < before else None

    def key(self, due: datetime) -> str:
        return once_key(due)


@attrs.frozen
class ByHand:
    """Never due by itself: it runs on request."""

    def next(self, after: datetime) -> datetime | None:  # noqa: ARG002 - as the others
        return None

    def previous(self, before: datetime) -> datetime | None:  # noqa: ARG002 - likewise
        return None

    def key(self, due: datetime) -> str:
        """Give the key of an instant that was due before the schedule was changed to this."""
        return cron_key(due)


#: When a schedule is due.
Timing: TypeAlias = Recurring | Every | Once | ByHand


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A valid row of the users' table.

    *source* is the jobs file that it came from, and *task_name* its task's name there; a row
    written by hand has neither, and only the *task*'s number. One with a *topic* runs whichever
    task listens to that; *no_listener* says what becomes of a run if none does. *params* is JSON
    text. *changed_at* is when the row was created, edited or enabled: no instant before it is ever
    run. *retry* and *timeout* default to the system's and the task's.
    """

    id: int
    name: str
    task: TaskRef
    timing: Timing
    changed_at: datetime
    source: str | None = None
    task_name: str | None = None
    topic: str | None = None
    no_listener: NoListener = NoListener.COMPLETE
    params: str = "{}"
    enabled: bool = True
    retry: RetryPolicy | None = None
    misfire: Misfire = DEFAULT_MISFIRE
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    concurrency: Concurrency | None = None
    timeout: timedelta | None = None
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    queue: str = MAIN_QUEUE
    conditions: Conditions | None = None

    @property
    def is_system(self) -> bool:
        """Whether it is the system's own: no message may run anything for it."""
        return self.task.is_system or self.name == CLEANUP_NAME

    def next(self, after: datetime) -> datetime | None:
        """Give the first instant strictly after *after* at which it is due, or None."""
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
    """An invalid row, after an UPDATE by hand for example. It is never due."""

    id: int
    name: str
    problem: str
    changed_at: datetime
    source: str | None = None
