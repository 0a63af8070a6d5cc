"""A schedule: when it is due, and what its misfire and overlap policies are."""

import enum
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Final, Self, TypeAlias, overload
from zoneinfo import ZoneInfo

import attrs
import msgspec

from ..cron import AS_CRON, ClockChanges, CronExpression
from ..cron.timeline import EPOCH, FIRST_MINUTE, LAST_MINUTE, moment_of
from ..reading import Duration, whole_number
from ..retries.policy import RetryPolicy
from ..texts.moments import say_duration
from ..topology import MAIN_QUEUE
from .catalog import NoListener
from .conditions import Conditions
from .keys import cron_key, every_key, once_key
from .task import TaskRef

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
        return self.expression.next(after, self.zone, self.changes)

    def previous(self, before: datetime) -> datetime | None:
        return self.expression.previous(before, self.zone, self.changes)

    def key(self, due: datetime) -> str:
        return cron_key(due)


SECOND: Final = timedelta(seconds=1)

#: The shortest and the longest interval.
SHORTEST_INTERVAL, LONGEST_INTERVAL = SECOND, timedelta(days=366)

_FIRST, _LAST = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)


def fault_of_period(period: timedelta) -> str | None:
    if SHORTEST_INTERVAL <= period <= LONGEST_INTERVAL and not period % SECOND:
        return None
    shortest, longest = say_duration(SHORTEST_INTERVAL), say_duration(LONGEST_INTERVAL)
    allowed = f"whole seconds from {shortest} to {longest} are"
    return f"{say_duration(period)} is no interval; {allowed}"


class Ticks(Sequence[datetime]):
    """The instants of an interval, as a range: a week of seconds takes no more than one."""

    def __init__(self, seconds: range) -> None:
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._seconds)

    @overload
    def __getitem__(self, index: int) -> datetime: ...
    @overload
    def __getitem__(self, index: slice) -> "Ticks": ...
    def __getitem__(self, index: int | slice) -> "datetime | Ticks":
        if isinstance(index, slice):
            return Ticks(self._seconds[index])
        return EPOCH + timedelta(seconds=self._seconds[index])


@attrs.frozen
class Every:
    """Due whenever a whole number of periods has passed since 1970; clock changes are nothing."""

    period: timedelta

    def next(self, after: datetime) -> datetime | None:
        since = ((after - EPOCH) // self.period + 1) * self.period
        return EPOCH + since if since <= _LAST - EPOCH else None

    def previous(self, before: datetime) -> datetime | None:
        since = -((EPOCH - before) // self.period + 1) * self.period
        return EPOCH + since if since >= _FIRST - EPOCH else None

    def between(self, first: datetime, last: datetime) -> Ticks:
        step = self.period // SECOND
        begin, end = -((EPOCH - first) // self.period) * step, (last - EPOCH) // SECOND
        return Ticks(range(begin, end + 1, step))

    def key(self, due: datetime) -> str:
        return every_key(due)

    def __str__(self) -> str:
        return f"every {say_duration(self.period)}"


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
        return cron_key(due)  # it was due before the schedule was changed to this


#: When a schedule is due.
Timing: TypeAlias = Recurring | Every | Once | ByHand


#: How many attempts a key may let run at once. Who starts one looks at all of them.
LIMITS: Final = range(1, 1_000 + 1)

#: The most letters of a key, and of what it is written as. A longer one is cut, with a digest.
LONGEST_KEY: Final = 200

_DIGEST: Final = 32

#: A larger number counts as this one: Python takes long to write very large ones, or refuses.
_LARGEST: Final = 2**64

#: A part that comes from the params: names of their tables, the last one of a text or a number.
_PART: Final = re.compile(r"\{params((?:\.[A-Za-z0-9_-]{1,64}){1,8})\}")


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """At most *limit* attempts with the same *key*, filled from params, run at once anywhere."""

    key: str
    limit: Annotated[int, whole_number(LIMITS)]

    def key_of(self, params: str) -> str:
        """Give the key of a run with these *params*, which are JSON text.

        A part that the params lack, or that is neither text nor whole number, is empty: such runs
        share a key.

        >>> Concurrency(key="customer-{params.id}", limit=5).key_of('{"id": 42}')
        'customer-42'
        """
        if "{" not in self.key:
            return self.key
        known = _decoded(params)
        return _bounded(_PART.sub(lambda part: _value(known, part[1]), self.key))

    def lacking(self, params: str) -> tuple[str, ...]:
        """Name the parts that a run with these *params* leaves empty: `params.customer`."""
        known = _decoded(params)
        paths = dict.fromkeys(part[1] for part in _PART.finditer(self.key))
        return tuple(f"params{path}" for path in paths if not _value(known, path).strip())


def faults_of_key(key: str) -> Iterator[str]:
    if not 0 < len(key) <= LONGEST_KEY:
        yield f"has {len(key):,} letters, 1-{LONGEST_KEY} are allowed"
        return
    rest = _PART.sub("", key)
    if "{" in rest or "}" in rest:
        yield "has a brace that begins no part; a part is {params.NAME}"
    if not rest.isprintable() or key != key.strip():
        yield "has a control character, or a blank at an end"


def _decoded(params: str) -> object:
    try:
        return msgspec.json.decode(params)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _value(known: object, path: str) -> str:
    for name in path.removeprefix(".").split("."):
        known = known.get(name) if isinstance(known, dict) else None
    if isinstance(known, bool) or not isinstance(known, str | int):
        return ""
    return known if isinstance(known, str) else str(max(min(known, _LARGEST), -_LARGEST))


def _bounded(key: str) -> str:
    """Let a key be one that every database keeps and compares letter by letter."""
    stripped = key.strip()
    if stripped.isprintable() and len(stripped) <= LONGEST_KEY:
        return stripped
    digest = sha256(key.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    shown = "".join(letter for letter in stripped if letter.isprintable())
    return f"{shown[: LONGEST_KEY - _DIGEST - 1].rstrip()}~{digest}"


#: Each in decimal, or empty where the row has none.
_WRITTEN: Final = re.compile(r"(-?\d{1,19})?,(-?\d{1,19})?,(-?\d{1,19})?")


class ScheduleOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a schedule, for which group, in which language: numbers that tasks are given."""

    user_id: int | None = None
    group_id: int | None = None
    language_id: int | None = None

    @classmethod
    def read(cls, text: object) -> Self:
        """Read the three numbers out of one text; what is no number counts as missing.

        >>> ScheduleOwner.read("7,,3")
        ScheduleOwner(user_id=7, group_id=None, language_id=3)
        >>> ScheduleOwner.read("7,root,3") == ScheduleOwner.read(None) == ScheduleOwner()
        True
        """
        found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            return NOBODY  # type: ignore[return-value]
        numbers = (None if each is None else int(each) for each in found.groups())
        return cls(**dict(zip(OWNER_FIELDS, numbers, strict=True)))


#: The fields of an owner, and their columns.
OWNER_FIELDS: Final = ScheduleOwner.__struct_fields__

#: The owner of most schedules.
NOBODY: Final = ScheduleOwner()


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
        has_ended = due is not None and self.ends_at is not None and due > self.ends_at
        return None if has_ended else due


@attrs.frozen(kw_only=True)
class BrokenSchedule:
    """An invalid row, after an UPDATE by hand for example. It is never due."""

    id: int
    name: str
    problem: str
    changed_at: datetime
    source: str | None = None
