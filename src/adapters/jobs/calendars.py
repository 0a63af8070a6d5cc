"""From a `[calendars.NAME]` table to a calendar."""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

from cronhare.domain.cron import UnknownZone, find_zone
from cronhare.domain.schedules.calendars import (
    LONGEST_LABEL,
    MOST_WINDOWS,
    CalendarDraft,
    NamedText,
)
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.windows import FORMS, WindowInvalid, parse_window
from cronhare.domain.texts.echo import echo

from .ics import IcsInvalid, ReadingTime, read_ics
from .schema import CalendarTable

_DAYS = f"is a list of windows, or a table of windows and what they are called: {FORMS}"


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
    zone = _zone(table.timezone, faults)
    windows = list(_days(table.days, faults))
    if table.file is not None:
        windows += _from_file(folder / table.file, zone, today, reading, faults)
    elif table.days is None:
        faults.append(Fault("days", 'are missing; give days, or file = "holidays.ics"'))
    if len(windows) > MOST_WINDOWS:
        problem = f"has {len(windows):,} windows, {MOST_WINDOWS:,} are allowed"
        faults.append(Fault("days", problem))
    return CalendarDraft(name=name, timezone=table.timezone, windows=tuple(windows))


def _zone(name: str, faults: list[Fault]) -> ZoneInfo:
    try:
        return find_zone(name)
    except UnknownZone as error:
        faults.append(Fault("timezone", str(error)))
        return ZoneInfo("UTC")


def _days(given: object, faults: list[Fault]) -> Iterator[NamedText]:
    match given:
        case None:
            pairs: list[tuple[object, object]] = []
        case list():
            pairs = [(each, None) for each in given[: MOST_WINDOWS + 1]]
        case Mapping():
            pairs = list(given.items())[: MOST_WINDOWS + 1]
        case _:
            faults.append(Fault("days", _DAYS))
            return
    for window, label in pairs:
        if not isinstance(window, str | date) or not isinstance(label, str | None):
            faults.append(Fault("days", _DAYS))
            return
        text = str(window)  # TOML has days of its own: 2026-12-25 needs no quotes
        try:
            parse_window(text)
        except WindowInvalid as error:
            faults.append(Fault("days", str(error)))
        if label is not None and len(label) > LONGEST_LABEL:
            long = f"{echo(label)} has {len(label):,} letters, {LONGEST_LABEL} are allowed"
            faults.append(Fault("days", long))
        yield text, label or None


def _from_file(
    path: Path, zone: ZoneInfo, today: date, reading: ReadingTime, faults: list[Fault]
) -> tuple[NamedText, ...]:
    try:
        return read_ics(path, zone, today=today, reading=reading)
    except IcsInvalid as error:
        faults.append(Fault("file", f"{path}: {error}"))
    except (OSError, ValueError) as error:  # ExtraMissing is a ValueError, as is a NUL in a path
        said = getattr(error, "strerror", None) or error
        faults.append(Fault("file", f"{path}: {said}"))
    return ()
