"""Calendars: named windows, such as holidays, by which schedules do not run, or run only then."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

import attrs

from ..cron import UnknownZone, find_zone
from ..texts.words import first_faults
from .windows import Window, WindowInvalid, parse_window

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


@attrs.frozen
class NamedWindow:
    """A window and what people call it: `Christmas Day`."""

    window: Window
    label: str | None = None

    def __str__(self) -> str:
        return self.label or self.window.text


@attrs.frozen(kw_only=True)
class Calendar:
    """Windows in the wall time of one zone."""

    name: str
    zone: ZoneInfo
    windows: tuple[NamedWindow, ...] = ()

    def window_at(self, instant: datetime) -> NamedWindow | None:
        """Find the first window that an instant is in."""
        for named in self.windows:
            if named.window.covers(instant, self.zone):
                return named
        return None


@attrs.frozen
class BrokenCalendar:
    """One that is missing or cannot be read: schedules that name it are not run silently."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"calendar {self.name}: {self.problem}"


#: A calendar as it was found.
FoundCalendar: TypeAlias = Calendar | BrokenCalendar


#: What is wrong with a calendar that there is none of.
NO_SUCH_CALENDAR: Final = "there is none of that name; apply the jobs file that has it"


def missing(name: str) -> BrokenCalendar:
    """Give what stands for a calendar that there is none of."""
    return BrokenCalendar(name, NO_SUCH_CALENDAR)


def read_calendar(
    name: str, zone: str, windows: Iterable[NamedText]
) -> tuple[Calendar | None, tuple[str, ...]]:
    """Make a calendar of texts; or say everything that is wrong with it."""
    faults: list[str] = []
    try:
        found = find_zone(zone)
    except UnknownZone as error:
        faults.append(f"timezone: {error}")
        found = ZoneInfo("UTC")
    read: list[NamedWindow] = []
    for text, label in windows:
        try:
            read.append(NamedWindow(parse_window(text), label))
        except WindowInvalid as error:
            faults.append(str(error))
    if faults:
        return None, tuple(faults)
    return Calendar(name=name, zone=found, windows=tuple(read)), ()


def compiled(draft: CalendarDraft) -> FoundCalendar:
    """Make a calendar of a draft; one that is broken says why."""
    calendar, faults = read_calendar(draft.name, draft.timezone, draft.windows)
    if calendar is not None:
        return calendar
    told = first_faults(faults, _MOST_FAULTS, as_fault=str)
    return BrokenCalendar(draft.name, "; ".join(told))
