"""`[calendars.NAME]`: windows, and those of an iCalendar file (RFC 5545), such as public holidays.

`recurring_ical_events` expands what recurs by the event's own clocks, and knows occurrences that
were moved or cancelled; what it finds is then written by the clocks of the calendar.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from zoneinfo import ZoneInfo

import attrs

from cronhare.adapters.extras import require
from cronhare.domain.cron import find_zone
from cronhare.domain.reading import Fault, Invalid, Reads
from cronhare.domain.schedules.conditions import (
    FORMS,
    LONGEST_LABEL,
    MOST_WINDOWS,
    CalendarDraft,
    NamedText,
    WindowInvalid,
    parse_window,
)
from cronhare.domain.schedules.schedule import DEFAULT_ZONE
from cronhare.domain.texts.printable import echo, printable

#: Bytes; the holidays of a country for fifty years take a tenth.
LARGEST_ICS: Final = 2**20

#: Years before and after this one for which recurring events are written out.
YEARS_BEFORE, YEARS_AFTER = 1, 10

#: The most events; each is a day at least, unless it is cancelled.
MOST_EVENTS: Final = MOST_WINDOWS

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_WEEKDAYS: Final = {
    day[:2].upper(): day for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
}
#: How often a rule must not recur: a day has too many of these, and the libraries no limit.
_WITHIN_A_DAY: Final = {"SECONDLY", "MINUTELY", "HOURLY"}
_DATES: Final = ("DTSTART", "DTEND", "DURATION", "RECURRENCE-ID", "RRULE", "RDATE", "EXDATE")


class IcsInvalid(ValueError):
    """A calendar file that cannot be used."""


def read_ics(path: Path, zone: ZoneInfo, *, today: date) -> tuple[NamedText, ...]:
    """Read the events of a file as windows by the clocks of *zone*, each with its summary.

    Times without a zone are taken as such. What recurs for ever is kept so where a window can say
    it ("12-25", "Sat,Sun"); the rest is written out for the years around *today*.

    Raises:
        IcsInvalid: with the event and what is wrong with it.
        ExtraMissing: the libraries are not installed.
        OSError: the file cannot be read.
    """
    require("calendars")
    with path.open("rb") as file:
        content = file.read(LARGEST_ICS + 1)
    if len(content) > LARGEST_ICS:
        raise IcsInvalid(f"is larger than {LARGEST_ICS // 2**20} MiB")
    if content.upper().count(b"BEGIN:VEVENT") > MOST_EVENTS:
        raise IcsInvalid(f"has more than {MOST_EVENTS:,} events")
    # Imported here: most jobs files have no such file, and it takes a fifth of a second.
    import icalendar  # noqa: PLC0415

    # It forgets the time zones of the file before.
    icalendar.use_zoneinfo()  # type: ignore[no-untyped-call]
    try:
        events = icalendar.Calendar.from_ical(content).walk("VEVENT")
    except OSError as error:  # zoneinfo's, of a TZID that it takes for a file's name
        named = echo(Path(str(error.filename)).name)
        raise IcsInvalid(f"its time zone {named} is unknown: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is not as RFC 5545 has it"
        raise IcsInvalid(f"cannot be read as iCalendar: {echo(why)}") from error
    if not events:
        raise IcsInvalid("has no events")
    for number, event in enumerate(events, start=1):
        with _telling(number, event):
            _prepare(event, zone)
    windows = list[NamedText]()
    for number, series in _series(events):
        with _telling(number, series[0]):
            windows += _windows_of(series, zone, today)
        # Counted as they are written out: a day that a thousand rules name takes its time.
        if len(windows) > MOST_WINDOWS:
            raise IcsInvalid(f"has more than {MOST_WINDOWS:,} days")
    return tuple(dict.fromkeys(windows))


@contextmanager
def _telling(number: int, event: Any) -> Iterator[None]:  # noqa: ANN401 - icalendar's
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        why = str(error) if isinstance(error, ValueError) else f"is not as RFC 5545 has it: {error}"
        raise IcsInvalid(f"event {number} ({echo(_label(event))}): {why}") from error


def _prepare(event: Any, zone: ZoneInfo) -> None:  # noqa: ANN401
    """Refuse what the libraries would guess at; and mend what programs write."""
    for name, problem in event.errors:
        if str(name).upper() in _DATES:
            raise IcsInvalid(f"its {str(name).upper()} cannot be read: {echo(problem)}")
    if "DTSTART" not in event and "RECURRENCE-ID" in event:  # as of a cancelled occurrence
        event["DTSTART"] = event["RECURRENCE-ID"]
    if "DTSTART" not in event:
        raise IcsInvalid("has no DTSTART")
    for each in (event[name] for name in ("DTSTART", "DTEND") if name in event):
        if each.params.get("VALUE") == "DATE" and isinstance(each.dt, datetime):  # with a TZID
            each.dt = each.dt.date()
        if isinstance(each.dt, datetime) and each.dt.tzinfo is None and "TZID" in each.params:
            raise IcsInvalid(f"its time zone {echo(str(each.params['TZID']))} is unknown")
    if event.end < event.start:
        raise IcsInvalid("ends before it begins")
    _prepare_rules(event, zone)


def _prepare_rules(event: Any, zone: ZoneInfo) -> None:  # noqa: ANN401
    if not any(_all(event, "RRULE")):
        event.pop("RRULE", None)
    is_day = not isinstance(event.start, datetime)
    for rule in _all(event, "RRULE"):
        if _WITHIN_A_DAY & {*rule["FREQ"]} or rule.get("INTERVAL") == [0]:
            raise IcsInvalid("its RRULE recurs within a day, or has no interval")
        if is_day and "UNTIL" in rule:
            rule["UNTIL"] = [_day(each, zone) for each in rule["UNTIL"]]
    for value in (value for group in _all(event, "EXDATE") if is_day for value in group.dts):
        value.dt = _day(value.dt, zone)


def _all(event: Any, name: str) -> list[Any]:  # noqa: ANN401
    found = event.get(name)
    return found if isinstance(found, list) else [] if found is None else [found]


def _text(event: Any, name: str) -> str:  # noqa: ANN401
    return str(next(iter(_all(event, name)), "")).strip()


def _label(event: Any) -> str | None:  # noqa: ANN401
    return printable(_text(event, "SUMMARY"))[:LONGEST_LABEL] or None


def _day(moment: date, zone: ZoneInfo) -> date:
    if not isinstance(moment, datetime):
        return moment
    return (moment if moment.tzinfo is None else moment.astimezone(zone)).date()


def _series(events: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Give each event with those that change its occurrences; of a UID the highest SEQUENCE counts.

    Some files have one UID for all their events: those of one SEQUENCE all count.
    """
    named = defaultdict[str, list[tuple[int, Any]]](list)
    for number, event in enumerate(events, start=1):
        named[_text(event, "UID") or f"number {number}"].append((number, event))
    for those in named.values():
        changes = [event for _, event in those if "RECURRENCE-ID" in event]
        whole = [(number, event) for number, event in those if "RECURRENCE-ID" not in event]
        newest = max((event.sequence or 0 for _, event in whole), default=0)
        current = [(n, event) for n, event in whole if (event.sequence or 0) == newest]
        for number, event in current[:1] or those[:1]:
            yield number, [event, *changes] if current else changes
        yield from ((number, [event]) for number, event in current[1:])


def _windows_of(series: Sequence[Any], zone: ZoneInfo, today: date) -> Iterator[NamedText]:
    from icalendar import Calendar  # noqa: PLC0415 - see `read_ics`
    from recurring_ical_events import of  # noqa: PLC0415

    first = series[0]
    rules = [rule for event in series for rule in _all(event, "RRULE")]
    if len(series) == 1 and not {"RDATE", "EXDATE"} & first.keys():
        if _text(first, "STATUS").upper() == "CANCELLED":
            return
        text = _for_ever(first, rules, today) if rules else _written(first.start, first.end, zone)
        if text is not None:
            yield text, _label(first)
            return
    since, until = date(today.year - YEARS_BEFORE, 1, 1), date(today.year + YEARS_AFTER + 1, 1, 1)
    if not rules:
        since, until = date(1000, 1, 1), date(9000, 1, 1)
    calendar = Calendar()
    for event in series:
        calendar.add_component(event)
    yield from sorted(
        (_written(each.start, each.end, zone), _label(each))
        for each in of(calendar).between(since, until)
        if _text(each, "STATUS").upper() != "CANCELLED"
    )


def _written(start: date, end: date, zone: ZoneInfo) -> str:
    if not isinstance(start, datetime) or not isinstance(end, datetime):
        last = max(end - _DAY, start)
        return f"{start}" if last == start else f"{start}..{last}"
    begins, ends = (
        (each if each.tzinfo is None else each.astimezone(zone)).replace(tzinfo=None)
        for each in (start, end)
    )
    if start == end:
        return f"{begins.date()}"
    if ends <= begins:  # the clocks were set back meanwhile
        ends = begins + (end - start)
    begins, ends = begins.replace(second=0), ends.replace(second=0)
    return f"{begins:%Y-%m-%dT%H:%M}..{max(ends, begins + _MINUTE):%Y-%m-%dT%H:%M}"


def _for_ever(event: Any, rules: Sequence[Any], today: date) -> str | None:  # noqa: ANN401
    """Write single days that never end as a window that never ends, if one can say it.

    Such a window has no beginning: None if one of its days would lie between *today* and *start*.
    Of days gone by, for which only a backfill asks, it says what it says of those to come.
    """
    start, rule = event.start, rules[0]
    if isinstance(start, datetime) or event.end - start > _DAY or len(rules) > 1:
        return None
    said = {name for name in rule if not (name == "INTERVAL" and rule[name] == [1])} - {"WKST"}
    frequency = str(rule["FREQ"][0]).upper()
    if frequency == "YEARLY" and said <= {"FREQ", "BYMONTH", "BYMONTHDAY"}:
        days = [int(each) for each in rule.get("BYMONTHDAY", [start.day])]
        months = [int(each) for each in rule.get("BYMONTH", [start.month])]
        is_to_come = start.replace(year=start.year - 1, day=min(start.day, 28)) < today
        is_on_its_day = (days, months) == ([start.day], [start.month])
        return f"{start:%m-%d}" if is_on_its_day and is_to_come else None
    if frequency == "WEEKLY" and said <= {"FREQ", "BYDAY"}:
        weekdays = {str(each).upper() for each in rule.get("BYDAY", [_weekday(start)])}
        to_come = [_weekday(start - n * _DAY) for n in range(1, min((start - today).days, 7) + 1)]
        is_on_its_day = _weekday(start) in weekdays and weekdays <= _WEEKDAYS.keys()
        if is_on_its_day and weekdays.isdisjoint(to_come):
            return ",".join(name for day, name in _WEEKDAYS.items() if day in weekdays)
    return None


def _weekday(day: date) -> str:
    return f"{day:%a}"[:2].upper()


_DAYS = f"is a list of windows, or a table of windows and what they are called: {FORMS}"


def _days(given: object) -> tuple[NamedText, ...]:
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
    name: str, table: CalendarTable, folder: Path, *, today: date, faults: list[Fault]
) -> CalendarDraft:
    windows: tuple[NamedText, ...] = table.days or ()
    if table.file is not None:
        path = folder / table.file
        try:
            windows += read_ics(path, table.timezone, today=today)
        except (OSError, ValueError) as error:  # as of a missing extra, or a NUL in a path
            said = getattr(error, "strerror", None) or error
            faults.append(Fault("file", f"{path}: {said}"))
    elif table.days is None and "days" not in {fault.field for fault in faults}:
        faults.append(Fault("days", 'are missing; give days, or file = "holidays.ics"'))
    if len(windows) > MOST_WINDOWS:
        problem = f"has {len(windows):,} windows, {MOST_WINDOWS:,} are allowed"
        faults.append(Fault("days", problem))
    return CalendarDraft(name=name, timezone=table.timezone.key, windows=windows)
