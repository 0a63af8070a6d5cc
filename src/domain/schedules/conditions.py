"""Conditions under which a schedule's due instants run: how often, how late, and on which days.

Days are windows of time as people write them. One text is one window, in some zone's wall time:

- ``2026-12-25``, ``2026-12-24..2026-12-26``: a day, or days, both inclusive;
- ``2026-12-24T18:00..2026-12-27T06:00``: from one time to another, the last exclusive;
- ``12-25``, ``12-24..01-01``: the same of each year;
- ``Sat``, ``Sat,Sun``, ``Mon-Fri``: days of each week;
- ``22:00-06:00``: each day; past midnight it belongs to the day on which it began;
- ``Mon-Fri 22:00-06:00``, ``12-31 18:00-24:00``: on those days alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta  # noqa: F401 - UTC is for the doctest
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import attrs
from msgspec import Meta

from ..cron import UnknownZone, find_zone
from ..reading import Fault, Reads, read_whole, whole_number
from ..texts.moments import LONGEST_DURATION, parse_duration, say_duration
from ..texts.printable import echo
from ..texts.words import NAME, first_faults, hint

#: The most characters of a window's text.
LONGEST_WINDOW: Final = 64

_WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]")
_YEARLY: Final = re.compile(r"([0-9][0-9])-([0-9][0-9])")
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]")
#: Days, times of day, or both with a blank between.
_WINDOW: Final = re.compile(r"(?:(.+?)(?: +|\Z))??([0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2})?")
_DAY: Final = timedelta(days=1)
_MINUTES_OF_A_DAY: Final = 24 * 60
_LEAP_YEAR: Final = 2000

FORMS: Final = (
    '"2026-12-25", "2026-12-24..2026-12-26", "12-25", "Sat,Sun", "Mon-Fri 22:00-06:00", '
    '"22:00-06:00" or "2026-12-24T18:00..2026-12-27T06:00"'
)


class WindowInvalid(ValueError):
    """A text that is no window."""


@attrs.frozen
class Window:
    """Some time. *on* says which days it begins on, *starts* and *ends* which minutes of them.

    With *between* it is one stretch of wall time, and the others mean nothing.
    """

    text: str
    on: Callable[[date], bool]
    starts: int = 0
    ends: int = _MINUTES_OF_A_DAY
    between: tuple[datetime, datetime] | None = None

    def covers(self, instant: datetime, zone: ZoneInfo) -> bool:
        try:
            wall = instant.astimezone(zone).replace(tzinfo=None)
        except OverflowError:  # at an edge of the calendar there is no such wall time
            return False
        if self.between is not None:
            return self.between[0] <= wall < self.between[1]
        minute = wall.hour * 60 + wall.minute
        if self.starts < self.ends:
            return self.starts <= minute < self.ends and self.on(wall.date())
        if minute >= self.starts:
            return self.on(wall.date())
        return minute < self.ends and wall.date() > date.min and self.on(wall.date() - _DAY)


@lru_cache(maxsize=8_192)
def parse_window(text: str) -> Window:
    """Read a window.

    >>> night = parse_window("Fri 22:00-06:00")
    >>> night.covers(datetime(2026, 3, 7, 5, 59, tzinfo=UTC), ZoneInfo("UTC"))
    True
    >>> night.covers(datetime(2026, 3, 8, 5, 59, tzinfo=UTC), ZoneInfo("UTC"))
    False

    Raises:
        WindowInvalid: with what is allowed.
    """
    if len(text) > LONGEST_WINDOW:
        raise WindowInvalid(f"{echo(text)} is longer than {LONGEST_WINDOW} letters")
    found = _WINDOW.fullmatch(text.strip())
    days, times = found.groups("") if found else (text, "")
    try:
        if (between := _between(days)) and not times:
            return Window(text, _on_all, between=between)
        starts, ends = _minutes(times) if times else (0, _MINUTES_OF_A_DAY)
        return Window(text, _days(days) if days or not times else _on_all, starts, ends)
    except ValueError as error:
        why = f" ({error})" if isinstance(error, WindowInvalid) else ""
        raise WindowInvalid(f"{echo(text)} is no window{why}; write {FORMS}") from error


def _on_all(_day: date) -> bool:
    return True


def _between(text: str) -> tuple[datetime, datetime] | None:
    first, dots, last = text.partition("..")
    if not (dots and _MOMENT.fullmatch(first) and _MOMENT.fullmatch(last)):
        return None
    begins, ends = datetime.fromisoformat(first), datetime.fromisoformat(last)
    if begins >= ends:
        raise WindowInvalid("it ends before it begins")
    return begins, ends


def _minutes(text: str) -> tuple[int, int]:
    hour, minute, last_hour, last_minute = (int(text[at : at + 2]) for at in (0, 3, 6, 9))
    starts, ends = hour * 60 + minute, last_hour * 60 + last_minute
    if max(minute, last_minute) > 59 or not starts < _MINUTES_OF_A_DAY >= ends:  # noqa: PLR2004
        raise ValueError(text)
    if starts == ends:
        raise WindowInvalid("it ends as it begins")
    return starts, ends


def _days(text: str) -> Callable[[date], bool]:
    first, dots, last = text.partition("..")
    if _DATE.fullmatch(first) and (not dots or _DATE.fullmatch(last)):
        return _dated(date.fromisoformat(first), date.fromisoformat(last if dots else first))
    if _YEARLY.fullmatch(first) and (not dots or _YEARLY.fullmatch(last)):
        return _yearly(_month_and_day(first), _month_and_day(last if dots else first))
    return _weekly(text)


def _dated(first: date, last: date) -> Callable[[date], bool]:
    if first > last:
        raise WindowInvalid("it ends before it begins")
    return lambda day: first <= day <= last


def _month_and_day(text: str) -> tuple[int, int]:
    month, day = map(int, text.split("-"))
    date(_LEAP_YEAR, month, day)  # raises where there is no such day
    return month, day


def _yearly(first: tuple[int, int], last: tuple[int, int]) -> Callable[[date], bool]:
    if first <= last:
        return lambda day: first <= (day.month, day.day) <= last
    return lambda day: (day.month, day.day) >= first or (day.month, day.day) <= last


def _weekly(text: str) -> Callable[[date], bool]:
    chosen = set[int]()
    for part in text.split(","):
        first, dash, last = (name.strip().casefold() for name in part.partition("-"))
        begins, ends = _WEEK.index(first), _WEEK.index(last if dash else first)
        chosen.update((begins + step) % 7 for step in range((ends - begins) % 7 + 1))
    return lambda day: day.weekday() in chosen


#: The most windows of a calendar, and characters of a window's name.
MOST_WINDOWS: Final = 5_000
LONGEST_LABEL: Final = 200

#: Faults of one calendar that are told.
_MOST_FAULTS: Final = 3


#: A window's text, and what people call it.
NamedText: TypeAlias = tuple[str, str | None]


@attrs.frozen(kw_only=True)
class CalendarDraft:
    """A calendar as a file has it. *timezone* is a name, *windows* are texts with their labels."""

    name: str
    timezone: str
    windows: tuple[NamedText, ...] = ()


@attrs.frozen(kw_only=True)
class Calendar:
    """Windows in the wall time of one zone, each with what people call it: `Christmas Day`."""

    name: str
    zone: ZoneInfo
    windows: tuple[tuple[Window, str], ...] = ()

    def window_at(self, instant: datetime) -> str | None:
        return next((name for each, name in self.windows if each.covers(instant, self.zone)), None)


@attrs.frozen
class BrokenCalendar:
    """One that is missing or cannot be read: schedules that name it are not run silently."""

    name: str
    problem: str

    def window_at(self, _instant: datetime) -> None:
        """Know none."""

    def __str__(self) -> str:
        return f"calendar {self.name}: {self.problem}"


#: A calendar as it was found.
FoundCalendar: TypeAlias = Calendar | BrokenCalendar


NO_SUCH_CALENDAR: Final = "there is none of that name; apply the jobs file that has it"


def missing(name: str) -> BrokenCalendar:
    return BrokenCalendar(name, NO_SUCH_CALENDAR)


def compiled(draft: CalendarDraft) -> FoundCalendar:
    faults: list[str] = []
    zone, windows = ZoneInfo("UTC"), list[tuple[Window, str]]()
    try:
        zone = find_zone(draft.timezone)
    except UnknownZone as error:
        faults.append(f"timezone: {error}")
    for text, label in draft.windows:
        try:
            windows.append((parse_window(text), label or text))
        except WindowInvalid as error:
            faults.append(str(error))
    if faults:
        return BrokenCalendar(
            draft.name, "; ".join(first_faults(faults, _MOST_FAULTS, as_fault=str))
        )
    return Calendar(name=draft.name, zone=zone, windows=tuple(windows))


#: How many runs a schedule may be allowed in all.
MAX_RUNS: Final = range(1, 1_000_000_000 + 1)

#: After how many failures in a row a schedule may pause itself.
PAUSE_AFTER: Final = range(1, 1_000 + 1)

#: The most calendars, and the most blackout windows, that a schedule names.
MOST_NAMED: Final = 20
MOST_BLACKOUTS: Final = 100

#: The most characters of JSON that are read as conditions.
LONGEST_CONDITIONS: Final = 16_384

_MILLISECOND: Final = timedelta(milliseconds=1)

#: How long after its due instant a run may begin.
_SHORTEST_EXPIRY: Final = timedelta(seconds=1)
_EXPIRIES: Final = range(_SHORTEST_EXPIRY // _MILLISECOND, LONGEST_DURATION // _MILLISECOND + 1)


def parse_expiry(text: str) -> timedelta:
    """Read how long after its due instant a run may begin; a `ValueError` if it is none."""
    if (expiry := parse_duration(text)) < _SHORTEST_EXPIRY:
        raise ValueError(f"must be 1s to {LONGEST_DURATION.days}d")
    return expiry


def _distinct(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _blackouts(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        parse_window(text)
    return _distinct(texts)


MaxRuns = Annotated[int, whole_number(MAX_RUNS)]
PauseAfter = Annotated[int, whole_number(PAUSE_AFTER)]
Calendars = Annotated[
    tuple[Annotated[str, Meta(pattern=rf"^{NAME}\Z")], ...],
    Meta(max_length=MOST_NAMED, description=f"a list of names of calendars, {MOST_NAMED} at most"),
    Reads(_distinct),
]
Blackouts = Annotated[
    tuple[str, ...],
    Meta(max_length=MOST_BLACKOUTS, description=f"a list of windows, {MOST_BLACKOUTS} at most"),
    Reads(_blackouts),
]
if TYPE_CHECKING:
    _Expiry = timedelta
else:
    _Expiry = Annotated[int, whole_number(_EXPIRIES), Reads(lambda number: number * _MILLISECOND)]


@attrs.frozen(kw_only=True)
class Conditions:
    """What must hold for a due instant to run. Each is without effect unless it is given.

    *max_runs* counts the runs that were due, not those by hand; *expires* is how long after its
    due instant a run may begin. An instant in a calendar of *skip_on* does not run, nor does one
    that is in none of *only_on*; *blackout* has windows in the schedule's own zone. After
    *pause_after* failures in a row the schedule is paused.
    """

    max_runs: MaxRuns | None = None
    pause_after: PauseAfter | None = None
    expires: _Expiry | None = None
    skip_on: Calendars = ()
    only_on: Calendars = ()
    blackout: Blackouts = ()

    @property
    def calendars(self) -> tuple[str, ...]:
        return (*self.skip_on, *self.only_on)

    def faults_among(self, known: Sequence[str]) -> Iterator[Fault]:
        """Find the calendars that it names and that are none of those *known*."""
        for field in ("skip_on", "only_on"):
            for name in getattr(self, field):
                if name not in known:
                    yield Fault(field, f"there is no calendar {name}; {hint(name, known)}")

    @property
    def judges_instants(self) -> bool:
        """Whether anything of it may keep an instant from running."""
        return attrs.evolve(self, pause_after=None) != NONE

    def blacked_out_by(self, instant: datetime, zone: ZoneInfo) -> Window | None:
        return next((w for w in map(parse_window, self.blackout) if w.covers(instant, zone)), None)


NONE: Final = Conditions()


def expired(after: timedelta) -> str:
    """Say that a run did not begin in time: a row by hand may have an end before its begin."""
    if after < timedelta(0):
        return "expired: it was to start before its due instant, and cannot"
    return f"expired: not started within {say_duration(after)} of its due instant"


def read_conditions(given: object) -> Conditions | None:
    """Read what a row gives, nothing being None; `Invalid` has every fault at once."""
    if isinstance(given, Mapping):
        given = {field: value for field, value in given.items() if value is not None}
    conditions = read_whole(Conditions, given)
    return None if conditions == NONE else conditions


def write_conditions(conditions: Conditions) -> dict[str, Any]:
    written = attrs.asdict(conditions, filter=lambda _, value: bool(value))
    if conditions.expires is not None:
        written["expires"] = conditions.expires // _MILLISECOND
    return written
