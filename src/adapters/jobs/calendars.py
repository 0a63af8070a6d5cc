"""`[calendars.NAME]`: windows, and those of an iCalendar file (RFC 5545), such as public holidays.

`recurring_ical_events` expands what recurs, and knows occurrences that were moved or cancelled. It
gets wall times of the event's own zone, so that a weekly event keeps its hour when the clocks
change; what it finds is then written by the clocks of the calendar.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar
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

#: Seconds of the processor for all files of a reading. A rule may step through every second, or
#: until the year 9999 for a day that never comes; so may a time zone that the file brings along.
LONGEST_READING: Final = 10.0

#: Years before and after this one for which recurring events are written out.
YEARS_BEFORE, YEARS_AFTER = 1, 10

#: The most events; each is a day at least, unless it is cancelled.
MOST_EVENTS: Final = MOST_WINDOWS

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_WEEKDAYS: Final = {
    day[:2].upper(): day for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
}
_DATES: Final = ("DTSTART", "DTEND", "DURATION", "RECURRENCE-ID", "RRULE", "RDATE", "EXDATE")


_Read = TypeVar("_Read")


class IcsInvalid(ValueError):
    """A calendar file that cannot be used."""


class _TooLong(Exception):
    """No ValueError, which libraries catch."""


class ReadingTime:
    """The processor's time that calendar files may take, all those of a reading together."""

    def __init__(self, most: float = LONGEST_READING) -> None:
        self._most = most
        self._spent = 0.0

    def bounded(self, read: Callable[[], _Read]) -> _Read:
        """Call *read*, and look at the clock at its calls of functions: libraries have no limit.

        Raises:
            IcsInvalid: it takes too long.
        """
        began, before, calls = time.thread_time(), sys.getprofile(), 0

        def check(_frame: FrameType, _event: str, _given: object) -> None:
            nonlocal calls
            calls += 1
            if calls % 1_000 == 1 and self._spent + time.thread_time() - began > self._most:
                raise _TooLong

        try:
            try:
                sys.setprofile(check)
                return read()
            finally:
                sys.setprofile(before)
        except _TooLong as error:
            text = f"takes more than {self._most:g} s to read, with the other files; write fewer"
            raise IcsInvalid(f"{text} rules, or such as do not step through seconds") from error
        finally:
            self._spent += time.thread_time() - began


@attrs.frozen(kw_only=True)
class _Event:
    """What counts of a VEVENT, its times as they are written."""

    number: int
    label: str | None
    uid: str
    sequence: int
    is_cancelled: bool
    start: date
    end: date
    rules: Sequence[Mapping[str, Sequence[Any]]]
    more: Sequence[Any]
    without: Sequence[date]
    replaces: date | None
    with_later: bool

    @property
    def is_day(self) -> bool:
        return not isinstance(self.start, datetime)


def read_ics(
    path: Path, zone: ZoneInfo, *, today: date, reading: ReadingTime
) -> tuple[NamedText, ...]:
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
    try:
        # Imported here: most jobs files have no such file, and it takes a fifth of a second.
        import recurring_ical_events  # noqa: F401, PLC0415 - with icalendar

        return reading.bounded(lambda: _windows(content, zone, today))
    except ImportError as error:
        text = f"cannot be read, as what was installed has changed since this start: {error}"
        raise IcsInvalid(text) from error
    except OSError as error:  # zoneinfo's, of a TZID that it takes for a file's name
        named = echo(Path(str(error.filename)).name)
        raise IcsInvalid(f"its time zone {named} is unknown: {error.strerror}") from error


def _windows(content: bytes, zone: ZoneInfo, today: date) -> tuple[NamedText, ...]:
    import icalendar  # noqa: PLC0415 - see `read_ics`

    # It forgets the time zones of the file before.
    icalendar.use_zoneinfo()  # type: ignore[no-untyped-call]
    try:
        found = icalendar.Calendar.from_ical(content).walk("VEVENT")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is not as RFC 5545 has it"
        raise IcsInvalid(f"cannot be read as iCalendar: {echo(why)}") from error
    if not found:
        raise IcsInvalid("has no events")
    events = []
    for number, each in enumerate(found, start=1):
        with _telling(number, _label(each)):
            events.append(_read_event(number, each))
    windows: dict[NamedText, None] = {}
    for series in _series(events):
        with _telling(series[0].number, series[0].label):
            windows.update(dict.fromkeys(_windows_of(series, zone, today)))
        if len(windows) > MOST_WINDOWS:
            raise IcsInvalid(f"has more than {MOST_WINDOWS:,} days")
    return tuple(windows)


@contextmanager
def _telling(number: int, label: str | None) -> Iterator[None]:
    try:
        try:
            yield
        except IcsInvalid:
            raise
        except ValueError as error:
            # What `dateutil` said of a rule, and not what was tried thereafter.
            raise IcsInvalid(
                f"its RRULE cannot be followed: {error.__context__ or error}"
            ) from error
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise IcsInvalid("is not as RFC 5545 has it") from error
    except IcsInvalid as error:
        raise IcsInvalid(f"event {number} ({echo(label)}): {error}") from error


def _read_event(number: int, event: Any) -> _Event:  # noqa: ANN401 - icalendar's
    for name, problem in event.errors:
        if str(name).upper() in _DATES:
            raise IcsInvalid(f"its {str(name).upper()} cannot be read: {echo(problem)}")
    start = _moment(event, "DTSTART") or _moment(event, "RECURRENCE-ID")
    if start is None:
        raise IcsInvalid("has no DTSTART")
    # A day is the same whatever the zone of its beginning, which may be one that nobody knows.
    is_day = not isinstance(start, datetime)
    replaces = _moment(event, "RECURRENCE-ID", any_zone=is_day)
    rules = [{name.upper(): list(rule[name]) for name in rule} for rule in _all(event, "RRULE")]
    if any(len(rule.get("UNTIL", ())) > 1 for rule in rules):
        raise IcsInvalid("its RRULE has several UNTILs")
    sequence = _text(event, "SEQUENCE")
    return _Event(
        number=number,
        label=_label(event),
        uid=_text(event, "UID"),
        sequence=min(int(sequence[:10]), 2**31 - 1) if sequence.isdecimal() else 0,
        is_cancelled=_text(event, "STATUS").upper() == "CANCELLED",
        start=start,
        end=_end(event, start),
        rules=[rule for rule in rules if rule],
        more=list(_listed(event, "RDATE", any_zone=is_day)),
        without=list(_listed(event, "EXDATE", any_zone=is_day)),
        replaces=replaces,
        with_later=replaces is not None and "RANGE" in event["RECURRENCE-ID"].params,
    )


def _all(event: Any, name: str) -> list[Any]:  # noqa: ANN401
    found = event.get(name)
    return found if isinstance(found, list) else [] if found is None else [found]


def _text(event: Any, name: str) -> str:  # noqa: ANN401
    return str(next(iter(_all(event, name)), "")).strip()


def _label(event: Any) -> str | None:  # noqa: ANN401
    return printable(_text(event, "SUMMARY"))[:LONGEST_LABEL] or None


def _moment(event: Any, name: str, *, any_zone: bool = False) -> date | None:  # noqa: ANN401
    found = _all(event, name)
    if len(found) > 1:
        raise IcsInvalid(f"has {len(found)} times {name}; write it once")
    return _read_moment(found[0].dt, found[0].params, any_zone=any_zone) if found else None


def _read_moment(moment: object, parameters: Mapping[str, Any], *, any_zone: bool) -> date:
    if not isinstance(moment, date):
        raise IcsInvalid("has something else where a day stands, or a day and a time")
    if isinstance(moment, datetime):
        if parameters.get("VALUE") == "DATE":
            return moment.date()
        if "TZID" in parameters and moment.tzinfo is None and not any_zone:
            raise IcsInvalid(f"its time zone {echo(str(parameters['TZID']))} is unknown")
    return moment


def _listed(event: Any, name: str, *, any_zone: bool) -> Iterator[Any]:  # noqa: ANN401
    for group in _all(event, name):
        for value in group.dts:
            if isinstance(value.dt, tuple):  # a period: begin, and end or length
                yield _read_moment(value.dt[0], group.params, any_zone=any_zone), value.dt[1]
            else:
                yield _read_moment(value.dt, group.params, any_zone=any_zone)


def _end(event: Any, start: date) -> date:  # noqa: ANN401
    end, is_day = _moment(event, "DTEND"), not isinstance(start, datetime)
    if end is None:
        lengths = [each.dt for each in _all(event, "DURATION")]
        if not all(isinstance(length, timedelta) for length in lengths):
            raise IcsInvalid("its DURATION is no length of time")
        end = start + sum(lengths, timedelta(0))
    if isinstance(end, datetime) == is_day:
        raise IcsInvalid("has a day for one of its two ends and a time for the other")
    if _has_zone(start) != _has_zone(end):
        raise IcsInvalid("has a time zone for one of its two ends alone")
    if end < start:
        raise IcsInvalid("ends before it begins")
    return end + _DAY if is_day and end == start else end


def _has_zone(moment: date) -> bool:
    return isinstance(moment, datetime) and moment.tzinfo is not None


def _series(events: Iterable[_Event]) -> Iterator[list[_Event]]:
    """Give each event with those that change its occurrences; of a UID the highest SEQUENCE counts.

    Some files have one UID for all their events: those of one SEQUENCE all count.
    """
    named: dict[str, list[_Event]] = {}
    for event in events:
        named.setdefault(event.uid or f"number {event.number}", []).append(event)
    for those in named.values():
        whole = [event for event in those if event.replaces is None]
        newest = max((event.sequence for event in whole), default=0)
        current = [event for event in whole if event.sequence == newest]
        yield current[:1] + [event for event in those if event.replaces is not None]
        yield from ([other] for other in current[1:])


def _windows_of(series: Sequence[_Event], zone: ZoneInfo, today: date) -> Iterator[NamedText]:
    first, clocks = series[0], _Clocks.of(series[0], zone)
    if len(series) == 1 and not (first.more or first.without):
        if first.is_cancelled:
            return
        if not first.rules:
            yield clocks.written(clocks.wall(first.start), clocks.wall(first.end)), first.label
            return
        if (text := _for_ever(first, today)) is not None:
            yield text, first.label
            return
    yield from _expanded(series, clocks, today)


@attrs.frozen
class _Clocks:
    """Those of a series, by which it recurs, and those of the calendar, by which it is written."""

    home: tzinfo
    zone: ZoneInfo
    first: date

    @classmethod
    def of(cls, first: _Event, zone: ZoneInfo) -> Self:
        return cls(getattr(first.start, "tzinfo", None) or zone, zone, first.start)

    def wall(self, moment: date) -> date:
        """Say a time by the clocks of the series; a day is a day everywhere."""
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return moment.astimezone(self.home).replace(tzinfo=None)
        return moment

    def fitted(self, moment: date, at: clock_time | None = None) -> date:
        """Say as the series does which occurrence is meant: by its day, or its time.

        A day's beginning may be written in UTC, and is one of the calendar's clocks.
        """
        if isinstance(self.first, datetime):
            if isinstance(moment, datetime):
                return self.wall(moment)
            return datetime.combine(moment, at or self.first.time())
        if isinstance(moment, datetime) and moment.tzname() == "UTC":
            moment = moment.astimezone(self.zone)
        return _day(moment)

    def written(self, start: date, end: date) -> str:
        """Write an occurrence by the clocks of the calendar; of no length, it is its day."""
        if not isinstance(start, datetime) or not isinstance(end, datetime):
            first, last = _day(start), _day(end) - _DAY
            return f"{first}" if last == first else f"{first}..{last}"
        begins, ends = (
            each.replace(tzinfo=self.home).astimezone(self.zone).replace(tzinfo=None)
            for each in (start, end)
        )
        if start == end:
            return f"{begins.date()}"
        if ends <= begins:  # the clocks were set back meanwhile
            ends = begins + (end - start)
        begins, ends = begins.replace(second=0), ends.replace(second=0)
        return f"{begins:%Y-%m-%dT%H:%M}..{max(ends, begins + _MINUTE):%Y-%m-%dT%H:%M}"


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _expanded(series: Sequence[_Event], clocks: _Clocks, today: date) -> Iterator[NamedText]:
    from icalendar import Calendar  # noqa: PLC0415 - see `read_ics`
    from recurring_ical_events import EventAdapter, of  # noqa: PLC0415

    class Adapter(EventAdapter):  # type: ignore[misc]  # it has no types
        def as_component(self, start: date, stop: date, *_: object) -> dict[str, Any]:
            """Make no copy of the event, which takes three times as long as finding it."""
            return {"from": start, "to": stop, "event": self._component}

    since, until = date(today.year - YEARS_BEFORE, 1, 1), date(today.year + YEARS_AFTER + 1, 1, 1)
    if not any(event.rules for event in series):
        since, until = date(1000, 1, 1), date(9000, 1, 1)
    calendar = Calendar()
    for event in series:
        calendar.add_component(_plain(event, clocks))
    found = of(calendar, components=[Adapter]).between(since, until)
    yield from sorted(
        (clocks.written(each["from"], each["to"]), str(each["event"]["SUMMARY"]) or None)
        for each in found
        if each["event"]["STATUS"] != "CANCELLED"
    )


def _plain(event: _Event, clocks: _Clocks) -> Any:  # noqa: ANN401 - icalendar's
    """Give an event in wall times alone."""
    from icalendar import Event  # noqa: PLC0415 - see `read_ics`

    plain = Event()
    plain.add("UID", "the same")
    plain.add("SEQUENCE", event.sequence)
    plain.add("SUMMARY", event.label or "")
    plain.add("STATUS", "CANCELLED" if event.is_cancelled else "CONFIRMED")
    plain.add("DTSTART", clocks.wall(event.start))
    plain.add("DTEND", clocks.wall(event.end))
    for rule in event.rules:
        # Some say by the last day of all years that it never ends.
        last = [each for each in rule.get("UNTIL", ()) if each.year < date.max.year]
        ends = {"UNTIL": [clocks.fitted(each, clock_time.max) for each in last]} if last else {}
        plain.add("RRULE", {name: rule[name] for name in rule if name != "UNTIL"} | ends)
    for each in event.more:
        begins, length = each if isinstance(each, tuple) else (each, None)
        if length is not None and not isinstance(length, timedelta):
            length -= begins
        plain.add("RDATE", [(clocks.fitted(begins), length) if length else clocks.fitted(begins)])
    for each in event.without:
        is_time = isinstance(each, datetime)
        plain.add("EXDATE", [clocks.fitted(each) if is_time else each])
    if event.replaces is not None:
        later = {"RANGE": "THISANDFUTURE"} if event.with_later else {}
        plain.add("RECURRENCE-ID", clocks.fitted(event.replaces), parameters=later)
    return plain


def _for_ever(event: _Event, today: date) -> str | None:
    """Write single days that never end as a window that never ends, if one can say it.

    Such a window has no beginning: None if one of its days would lie between *today* and *start*.
    Of days gone by, for which only a backfill asks, it says what it says of those to come.
    """
    start, rule = event.start, event.rules[0]
    if not event.is_day or event.end - start != _DAY or len(event.rules) > 1:
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
