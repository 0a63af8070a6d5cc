"""Calendars, from rows and to rows. People may write them by hand."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Row, bindparam, delete, func, insert, select

from cronhare.domain.schedules.calendars import (
    MOST_WINDOWS,
    BrokenCalendar,
    CalendarDraft,
    FoundCalendar,
    NamedText,
    compiled,
    missing,
)

from ..schema.tables import calendar_windows, calendars
from .own_rows import BrokenRow, OwnTable

CALENDAR: Final = OwnTable(calendars)
WINDOW: Final = OwnTable(calendar_windows)

_NAMES: Final[BindParameter[Any]] = bindparam("names", expanding=True)

_CALENDARS: Final = select(calendars).where(calendars.c.name.in_(_NAMES))
_COUNTS: Final = (
    select(calendar_windows.c.calendar, func.count().label("windows"))
    .where(calendar_windows.c.calendar.in_(_NAMES))
    .group_by(calendar_windows.c.calendar)
)
_WINDOWS: Final = (
    select(calendar_windows)
    .where(calendar_windows.c.calendar.in_(_NAMES))
    .order_by(calendar_windows.c.id)
)
_REMOVE: Final = delete(calendars).where(calendars.c.name.in_(_NAMES))
_EMPTY: Final = delete(calendar_windows).where(calendar_windows.c.calendar.in_(_NAMES))


def find_calendars(connection: Connection, names: Collection[str]) -> Mapping[str, FoundCalendar]:
    """Find calendars by name; what is missing or broken says so."""
    if not names:
        return {}
    drafts = read_drafts(connection, names)
    return {name: _compiled(name, drafts.get(name)) for name in names}


def read_drafts(
    connection: Connection, names: Collection[str]
) -> Mapping[str, CalendarDraft | BrokenCalendar]:
    """Read calendars as they were written; those that are missing are left out."""
    asked = {"names": list(names)}
    rows = {row.name: row for row in connection.execute(_CALENDARS, asked)}
    counts = {row.calendar: row.windows for row in connection.execute(_COUNTS, asked)}
    large = {name for name, count in counts.items() if count > MOST_WINDOWS}
    windows = _windows(connection, [name for name in rows if name not in large])
    return {
        name: _too_large(name) if name in large else _draft(row, windows.get(name, ()))
        for name, row in rows.items()
        if isinstance(name, str)
    }


def save_calendars(
    connection: Connection,
    drafts: Sequence[CalendarDraft],
    *,
    source: str | None,
    dropped: Collection[str],
) -> None:
    """Replace these calendars, and remove others."""
    gone = {"names": [*(draft.name for draft in drafts), *dropped]}
    if not gone["names"]:
        return
    connection.execute(_EMPTY, gone)
    connection.execute(_REMOVE, gone)
    rows = [{"name": draft.name, "timezone": draft.timezone, "source": source} for draft in drafts]
    if rows:
        connection.execute(insert(calendars), rows)
    within = [
        {"calendar": draft.name, "during": text, "label": label}
        for draft in drafts
        for text, label in draft.windows
    ]
    if within:
        connection.execute(insert(calendar_windows), within)


def _compiled(name: str, draft: CalendarDraft | BrokenCalendar | None) -> FoundCalendar:
    if draft is None:
        return missing(name)
    return draft if isinstance(draft, BrokenCalendar) else compiled(draft)


def _windows(
    connection: Connection, names: Sequence[str]
) -> Mapping[str, Sequence[NamedText | BrokenRow]]:
    found = defaultdict[str, list[NamedText | BrokenRow]](list)
    rows = connection.execute(_WINDOWS, {"names": names}).all() if names else ()
    for row, read in zip(rows, WINDOW.each(rows), strict=True):
        broken = isinstance(read, BrokenRow)
        found[row.calendar].append(read if broken else (read.during, read.label))
    return found


def _draft(
    row: Row[Any], windows: Iterable[NamedText | BrokenRow]
) -> CalendarDraft | BrokenCalendar:
    try:
        read = CALENDAR.read(row)
    except BrokenRow as broken:
        return BrokenCalendar(row.name, broken.why)
    texts: list[NamedText] = []
    for window in windows:
        if isinstance(window, BrokenRow):
            return BrokenCalendar(row.name, window.why)
        texts.append(window)
    return CalendarDraft(name=read.name, timezone=read.timezone, windows=tuple(texts))


def _too_large(name: str) -> BrokenCalendar:
    return BrokenCalendar(name, f"it has more than {MOST_WINDOWS:,} windows, which one may")
