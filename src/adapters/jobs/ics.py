"""Windows from an iCalendar file (RFC 5545), such as public holidays: within bounds.

What recurs for ever is kept so where a window can say it ("12-25", "Sat,Sun"); what cannot is
written out for the years around today.
"""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from cronhare.adapters.plain_files import read_plain_file
from cronhare.domain.schedules.calendars import LONGEST_LABEL, MOST_WINDOWS, NamedText
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.printable import printable

from .ics_bounds import IcsInvalid, OccurrenceCount, SearchTime
from .ics_events import windows_of
from .ics_zones import refuse_zones

#: Bytes; the holidays of a country for fifty years take a tenth.
LARGEST_ICS: Final = 2**20

#: How deep components may be nested: a calendar, an event, an alarm.
DEEPEST: Final = 4


def read_ics(
    path: Path, zone: ZoneInfo, *, today: date, search: SearchTime
) -> tuple[NamedText, ...]:
    """Read the events of a file as windows, each with its summary.

    Times are turned into wall time of *zone*; those without one are taken as such. *search* is that
    of all files of the reading.

    Raises:
        IcsInvalid: with the event and what is wrong with it.
        OSError: the file cannot be read.
    """
    content = read_plain_file(path, most=LARGEST_ICS)
    if len(content) > LARGEST_ICS:
        raise IcsInvalid(f"is larger than {LARGEST_ICS // 2**20} MiB")
    _refuse_depth(content)
    windows: list[NamedText] = []
    looked_at = OccurrenceCount(search)
    for number, event in enumerate(_events(content, today), start=1):
        try:
            for text in windows_of(event, zone, today, looked_at):
                windows.append((text, _label(event)))
                if len(windows) > MOST_WINDOWS:
                    raise IcsInvalid(f"has more than {MOST_WINDOWS:,} days, which a calendar may")
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, IcsInvalid) and str(error).startswith("has more"):
                raise
            raise IcsInvalid(f"event {number} ({echo(_label(event))}): {error}") from error
    return tuple(dict.fromkeys(windows))


def _refuse_depth(content: bytes) -> None:
    """Refuse what is nested deeper than calendars are: its readers walk it recursively."""
    depth = 0
    for line in content.upper().splitlines():
        if line.startswith(b"BEGIN:"):
            depth += 1
        elif line.startswith(b"END:"):
            depth -= 1
        if depth > DEEPEST:
            raise IcsInvalid(f"has components that are nested deeper than {DEEPEST}")


def _events(content: bytes, today: date) -> Sequence[Any]:
    try:
        # Imported here: most jobs files have no such file, and it takes a fifth of a second.
        import icalendar  # noqa: PLC0415
        from dateutil import rrule  # noqa: F401, PLC0415 - now, with what it belongs to
    except ImportError as error:
        text = f"cannot be read, as what was installed has changed since this start: {error}"
        raise IcsInvalid(text) from error
    try:
        calendar = icalendar.Calendar.from_ical(content)
        events: Sequence[Any] = calendar.walk("VEVENT")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise IcsInvalid(f"cannot be read as iCalendar: {echo(str(error))}") from error
    if not events:
        raise IcsInvalid("has no events")
    refuse_zones(calendar, today)
    return events


def _label(event: Any) -> str | None:  # noqa: ANN401 - icalendar's
    summary = str(event.get("SUMMARY") or "").strip()
    return printable(summary)[:LONGEST_LABEL] or None
