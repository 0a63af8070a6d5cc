"""From a `[calendars.NAME]` table to a calendar: windows, and a file that has others."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import attrs

from cronhare.domain.cron import find_zone
from cronhare.domain.reading import Fault, Invalid, Reads
from cronhare.domain.schedules.calendars import (
    LONGEST_LABEL,
    MOST_WINDOWS,
    CalendarDraft,
    NamedText,
)
from cronhare.domain.schedules.schedule import DEFAULT_ZONE
from cronhare.domain.schedules.windows import FORMS, WindowInvalid, parse_window
from cronhare.domain.texts.printable import echo

from .ics import ReadingTime, read_ics

_DAYS = f"is a list of windows, or a table of windows and what they are called: {FORMS}"


def _days(given: object) -> tuple[NamedText, ...]:
    """Read windows, with their labels in a table; TOML has days of its own, without quotes."""
    if not isinstance(given, list | Mapping):
        raise ValueError(_DAYS)  # noqa: TRY004 - a fault of the file
    labels = list(given.values()) if isinstance(given, Mapping) else [None] * len(given)
    windows, faults = list[NamedText](), list[Fault]()
    for window, label in zip(given, labels, strict=True):
        if not isinstance(window, str | date) or not isinstance(label, str | None):
            raise ValueError(_DAYS)  # noqa: TRY004 - a fault of the file
        windows.append((str(window), label or None))
        try:
            parse_window(str(window))
        except WindowInvalid as error:
            faults.append(Fault("", str(error)))
        if label is not None and len(label) > LONGEST_LABEL:
            long = f"{echo(label)} has {len(label):,} letters, {LONGEST_LABEL} are allowed"
            faults.append(Fault("", long))
    if faults:
        raise Invalid(faults)
    return tuple(windows)


# `Annotated` names what is written.
if TYPE_CHECKING:
    _Zone = ZoneInfo
else:
    _Zone = Annotated[str, Reads(find_zone)]


@attrs.frozen(kw_only=True)
class CalendarTable:
    """`[calendars.NAME]`."""

    timezone: _Zone = attrs.field(factory=lambda: ZoneInfo(DEFAULT_ZONE))
    days: Annotated[Any, Reads(_days)] = None
    file: str | None = None


def read_calendar_table(
    name: str,
    table: CalendarTable,
    folder: Path,
    *,
    today: date,
    reading: ReadingTime,
    faults: list[Fault],
) -> CalendarDraft:
    """Make a calendar; *folder* is that of the jobs file, *today* the day of the reading.

    *reading* is the time for all its calendars.
    """
    windows: tuple[NamedText, ...] = table.days or ()
    if table.file is not None:
        windows += _from_file(folder / table.file, table.timezone, today, reading, faults)
    elif table.days is None and "days" not in {fault.field for fault in faults}:
        faults.append(Fault("days", 'are missing; give days, or file = "holidays.ics"'))
    if len(windows) > MOST_WINDOWS:
        problem = f"has {len(windows):,} windows, {MOST_WINDOWS:,} are allowed"
        faults.append(Fault("days", problem))
    return CalendarDraft(name=name, timezone=table.timezone.key, windows=windows)


def _from_file(
    path: Path, zone: ZoneInfo, today: date, reading: ReadingTime, faults: list[Fault]
) -> tuple[NamedText, ...]:
    try:
        return read_ics(path, zone, today=today, reading=reading)
    except (OSError, ValueError) as error:  # as of a missing extra, or a NUL in a path
        said = getattr(error, "strerror", None) or error
        faults.append(Fault("file", f"{path}: {said}"))
    return ()
