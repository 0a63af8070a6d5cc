"""Windows from an iCalendar file (RFC 5545), such as public holidays: within bounds.

What recurs for ever is kept so where a window can say it ("12-25", "Sat,Sun"); what cannot is
written out for the years around today.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from cronhare.adapters.plain_files import read_plain_file
from cronhare.domain.schedules.calendars import LONGEST_LABEL, MOST_WINDOWS, NamedText
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.printable import printable

#: Bytes; the holidays of a country for fifty years take a tenth.
LARGEST_ICS: Final = 2**20

#: How deep components may be nested: a calendar, an event, an alarm.
DEEPEST: Final = 4

#: Years before and after this one for which recurring events are written out.
YEARS_BEFORE, YEARS_AFTER = 1, 10

#: The most occurrences that are looked at, those of years gone by included.
MOST_OCCURRENCES: Final = 100_000

#: Seconds of the processor for following rules, over all files of a reading. A rule steps through
#: many days for each that it comes to, or through all until the year 9999 for none.
LONGEST_SEARCH: Final = 5.0

_FIRST_YEAR: Final = 1900
_FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
_PARTS: Final = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS"}) | {
    f"BY{unit}" for unit in ("DAY", "MONTH", "MONTHDAY", "YEARDAY", "WEEKNO")
}
_WEEKDAYS: Final = {"MO": "Mon", "TU": "Tue", "WE": "Wed", "TH": "Thu", "FR": "Fri", "SA": "Sat"}
_DAY: Final = timedelta(days=1)


class IcsInvalid(ValueError):
    """A calendar file that cannot be used."""


class SearchTime:
    """How long rules were followed in a reading, which the caller may make of several files."""

    def __init__(self, seconds: Callable[[], float] = time.thread_time) -> None:
        """*seconds* is a stopwatch: of the processor, so that a busy machine refuses no file."""
        self._seconds = seconds
        self._spent = 0.0

    @contextmanager
    def spending(self) -> Iterator[Callable[[], None]]:
        """Count the time within; what this gives is to be called at each step.

        Raises:
            IcsInvalid: it was too long.
        """
        began = self._seconds()

        def check() -> None:
            if self._spent + self._seconds() - began > LONGEST_SEARCH:
                text = f"takes more than {LONGEST_SEARCH:.0f} s to find the days of all its rules"
                raise IcsInvalid(f"{text}; write fewer rules, or such as come to more of the days")

        try:
            check()
            yield check
        finally:
            self._spent += self._seconds() - began


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
    budget = _Budget(search)
    for number, event in enumerate(_events(content), start=1):
        try:
            for text in _windows_of(event, zone, today, budget):
                windows.append((text, _label(event)))
                if len(windows) > MOST_WINDOWS:
                    raise IcsInvalid(f"has more than {MOST_WINDOWS:,} days, which a calendar may")
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, IcsInvalid) and str(error).startswith("has more"):
                raise
            raise IcsInvalid(f"event {number} ({echo(_label(event))}): {error}") from error
    return tuple(dict.fromkeys(windows))


class _Budget:
    """Counts the occurrences that may still be looked at."""

    def __init__(self, search: SearchTime) -> None:
        self.search = search
        self._left = MOST_OCCURRENCES

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise IcsInvalid(f"has more than {MOST_OCCURRENCES:,} occurrences to look at")


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


def _events(content: bytes) -> Sequence[Any]:
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
    return events


def _label(event: Any) -> str | None:  # noqa: ANN401 - icalendar's
    summary = str(event.get("SUMMARY") or "").strip()
    return printable(summary)[:LONGEST_LABEL] or None


def _windows_of(
    event: Any,  # noqa: ANN401
    zone: ZoneInfo,
    today: date,
    budget: _Budget,
) -> Iterator[str]:
    if str(event.get("STATUS") or "").upper() == "CANCELLED":
        return
    start, length = _span(event, zone)
    rule = event.get("RRULE")
    if rule is None:
        starts = [start, *_listed(event, "RDATE", zone)]
    elif isinstance(rule, list):
        raise IcsInvalid("has several RRULEs; one is read")
    else:
        parts = _parts(rule)
        if event.get("EXDATE") is None and (text := _for_ever(parts, start, length)) is not None:
            yield text
            return
        starts = [*_recurring(parts, start, zone, today, budget), *_listed(event, "RDATE", zone)]
    left_out = {_as_day(each) for each in _listed(event, "EXDATE", zone)}
    for each in starts:
        if _as_day(each) not in left_out:
            budget.take()
            yield _written(each, length)


def _span(event: Any, zone: ZoneInfo) -> tuple[date, timedelta]:  # noqa: ANN401
    """Give when an event begins, by the clocks of *zone*, and how long it is."""
    if event.get("DTSTART") is None:
        raise IcsInvalid("has no DTSTART")
    start = _wall(event["DTSTART"], zone)
    if start.year < _FIRST_YEAR:
        raise IcsInvalid(f"begins before {_FIRST_YEAR}")
    if event.get("DTEND") is not None:
        end = _wall(event["DTEND"], zone)
        if isinstance(start, datetime) != isinstance(end, datetime):
            raise IcsInvalid("has a day and a time for its two ends")
        length = end - start
    elif event.get("DURATION") is not None:
        length = event["DURATION"].dt
    else:
        length = _DAY if not isinstance(start, datetime) else timedelta(0)
    if length <= timedelta(0):
        raise IcsInvalid("ends before it begins, or has no length")
    return start, length


def _wall(value: Any, zone: ZoneInfo) -> date:  # noqa: ANN401
    moment = value.dt
    if not isinstance(moment, datetime):
        if not isinstance(moment, date):
            raise IcsInvalid(f"{echo(moment)} is neither a day nor a time")
        return moment
    named = value.params.get("TZID")
    if named is not None and moment.tzinfo is None:
        raise IcsInvalid(f"its time zone {echo(str(named))} is unknown")
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    return moment.replace(second=0, microsecond=0)


def _listed(event: Any, name: str, zone: ZoneInfo) -> Iterator[date]:  # noqa: ANN401
    found = event.get(name)
    for group in found if isinstance(found, list) else [found]:
        for value in getattr(group, "dts", ()):
            yield _wall(value, zone)


def _as_day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _parts(rule: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    parts = {str(name).upper(): list(values) for name, values in rule.items()}
    if unknown := sorted(parts.keys() - _PARTS):
        raise IcsInvalid(f"its RRULE has {unknown[0][:20]}, which is not read")
    if [str(each).upper() for each in parts.get("FREQ", ())] not in [[f] for f in _FREQUENCIES]:
        raise IcsInvalid(f"its RRULE has none of FREQ={', '.join(_FREQUENCIES)}")
    for name in ("INTERVAL", "COUNT"):
        values = parts.get(name, [1])
        if len(values) != 1 or not 1 <= int(values[0]) <= MOST_OCCURRENCES:
            raise IcsInvalid(f"its RRULE has no {name} of 1-{MOST_OCCURRENCES:,}")
    return parts


def _for_ever(parts: Mapping[str, Sequence[Any]], start: date, length: timedelta) -> str | None:
    """Write what never ends as a window that never ends, if one can say it."""
    said = {name for name in parts if not (name == "INTERVAL" and parts[name] == [1])} - {"WKST"}
    if isinstance(start, datetime) or length != _DAY:
        return None
    frequency = str(parts["FREQ"][0]).upper()
    on_its_day = [int(each) for each in parts.get("BYMONTHDAY", [start.day])] == [start.day]
    on_its_day &= [int(each) for each in parts.get("BYMONTH", [start.month])] == [start.month]
    if frequency == "YEARLY" and said <= {"FREQ", "BYMONTH", "BYMONTHDAY"} and on_its_day:
        return f"{start:%m-%d}"
    if frequency == "WEEKLY" and said <= {"FREQ", "BYDAY"}:
        names = {**_WEEKDAYS, "SU": "Sun"}
        days = [str(each).upper() for each in parts.get("BYDAY", [f"{start:%a}"[:2]])]
        return ",".join(names[day] for day in days) if all(day in names for day in days) else None
    return None


def _recurring(
    parts: Mapping[str, Sequence[Any]], start: date, zone: ZoneInfo, today: date, budget: _Budget
) -> Iterator[date]:
    from dateutil.rrule import rrulestr  # noqa: PLC0415 - see `_events`

    is_day = not isinstance(start, datetime)
    begin = start if isinstance(start, datetime) else datetime.combine(start, clock_time())
    text = ";".join(
        f"{name}={','.join(_part(name, each, zone) for each in values)}"
        for name, values in parts.items()
    )
    first = datetime.combine(date(today.year - YEARS_BEFORE, 1, 1), clock_time())
    last = datetime.combine(date(today.year + YEARS_AFTER + 1, 1, 1), clock_time())
    found = None
    with budget.search.spending() as check:
        for found in rrulestr(text, dtstart=begin):
            check()
            budget.take()
            if found >= last:
                break
            if found >= first:
                yield found.date() if is_day else found
    if found is None:
        raise IcsInvalid("its RRULE never comes to a day")


def _part(name: str, value: Any, zone: ZoneInfo) -> str:  # noqa: ANN401
    if name != "UNTIL":
        text = str(value)
        if not re.fullmatch(r"[+-]?[A-Za-z0-9]{1,12}", text):
            raise IcsInvalid(f"its RRULE has {echo(text)} for {name}")
        return text
    if isinstance(value, datetime):
        moment = value.astimezone(zone).replace(tzinfo=None) if value.tzinfo else value
        return f"{moment:%Y%m%dT%H%M%S}"
    return f"{value:%Y%m%d}T235959"


def _written(start: date, length: timedelta) -> str:
    if isinstance(start, datetime):
        return f"{start:%Y-%m-%dT%H:%M}..{start + length:%Y-%m-%dT%H:%M}"
    last = start + length - _DAY
    return f"{start}" if last == start else f"{start}..{last}"
