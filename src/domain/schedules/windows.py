"""Windows of time as people write them: days, weeks, times of the day.

One text is one window, in some zone's wall time:

- ``2026-12-25``, ``2026-12-24..2026-12-26``: a day, or days, both inclusive;
- ``2026-12-24T18:00..2026-12-27T06:00``: from one time to another, the last exclusive;
- ``12-25``, ``12-24..01-01``: the same of each year;
- ``Sat``, ``Sat,Sun``, ``Mon-Fri``: days of each week;
- ``22:00-06:00``: each day; past midnight it belongs to the day on which it began;
- ``Mon-Fri 22:00-06:00``, ``12-31 18:00-24:00``: on those days alone.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta  # noqa: F401 - UTC is for the doctest
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import attrs

from ..texts.printable import echo

#: The most characters of a window's text.
LONGEST_WINDOW: Final = 64

_WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]")
_YEARLY: Final = re.compile(r"([0-9][0-9])-([0-9][0-9])")
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]")
_TIMES: Final = re.compile(r"([0-9][0-9]):([0-9][0-9])-([0-9][0-9]):([0-9][0-9])")
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
        """Whether an instant is in it, by the clocks of *zone*."""
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
    days, _, times = text.strip().rpartition(" ")
    if _TIMES.fullmatch(text.strip()):
        days, times = "", text.strip()
    elif not _TIMES.fullmatch(times):
        days, times = text.strip(), ""
    try:
        if (between := _between(days)) and not times:
            return Window(text, _on_all, between=between)
        starts, ends = _minutes(times) if times else (0, _MINUTES_OF_A_DAY)
        on = _days(days.strip()) if days or not times else _on_all
        return Window(text, on, starts, ends)
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
    found = _TIMES.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, minute, last_hour, last_minute = map(int, found.groups())
    starts = time(hour, minute)
    ends = last_hour * 60 + last_minute
    if ends > _MINUTES_OF_A_DAY or last_minute > 59:  # noqa: PLR2004
        raise ValueError(text)
    if starts.hour * 60 + starts.minute == ends:
        raise WindowInvalid("it ends as it begins")
    return starts.hour * 60 + starts.minute, ends


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
