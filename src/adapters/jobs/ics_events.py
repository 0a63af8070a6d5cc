"""From an event of an iCalendar file to windows.

It recurs by its own clocks, and each occurrence is told by those of the calendar: what is at 23:30
in Lisbon each Friday is at 00:30 in Berlin each Saturday, whichever of the two changes its clocks.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import Any, Final, Self
from zoneinfo import ZoneInfo

import attrs

from cronhare.domain.texts.echo import echo

from .ics_bounds import IcsInvalid, OccurrenceCount
from .ics_rules import for_ever, occurrences, read_rule

_FIRST_YEAR: Final = 1900
_DAY: Final = timedelta(days=1)


def windows_of(
    event: Any,  # noqa: ANN401 - icalendar's
    zone: ZoneInfo,
    today: date,
    looked_at: OccurrenceCount,
) -> Iterator[str]:
    """Write an event by the clocks of *zone*, the calendar's; *today* says which years matter.

    Raises:
        IcsInvalid: it cannot be read, or costs too much.
    """
    if str(event.get("STATUS") or "").upper() == "CANCELLED":
        return
    span = _Span.of(event)
    rule = event.get("RRULE")
    more = [span.at_home(each, zone) for each in _listed(event, "RDATE")]
    if rule is None:
        starts: Iterator[datetime] = iter([span.begin, *more])
    elif isinstance(rule, list):
        raise IcsInvalid("has several RRULEs; one is read")
    else:
        parts = read_rule(rule)
        is_one_day = span.is_day and span.length == _DAY
        if is_one_day and event.get("EXDATE") is None and not more:
            text = for_ever(parts, span.begin.date(), today)
            if text is not None:
                yield text
                return
        home = span.home or zone
        starts = iter([*occurrences(parts, span.begin, home, today, looked_at), *more])
    is_left_out = _left_out(event, span, zone)
    for start in starts:
        if not is_left_out(start):
            looked_at.take()
            yield span.written(start, zone)


@attrs.frozen(kw_only=True)
class _Span:
    """When an event begins by the clocks of its *home*, and how long it is.

    Without a home its times are those of whoever reads it. Days of a duration are days of the
    calendar; all else is time that passes (RFC 5545, 3.3.6 and 3.8.5.3).
    """

    begin: datetime
    home: tzinfo | None
    is_day: bool
    days: timedelta
    passing: timedelta

    @classmethod
    def of(cls, event: Any) -> Self:  # noqa: ANN401
        if event.get("DTSTART") is None:
            raise IcsInvalid("has no DTSTART")
        start = _moment(event["DTSTART"])
        if start.year < _FIRST_YEAR:
            raise IcsInvalid(f"begins before {_FIRST_YEAR}")
        days, passing = _length(event, start)
        if days + passing <= timedelta(0):
            raise IcsInvalid("ends before it begins, or has no length")
        is_day = not isinstance(start, datetime)
        home = start.tzinfo if isinstance(start, datetime) else None
        return cls(begin=_naive(start), home=home, is_day=is_day, days=days, passing=passing)

    @property
    def length(self) -> timedelta:
        return self.days + self.passing

    def at_home(self, moment: date, zone: ZoneInfo) -> datetime:
        """Say by the clocks of its home when a moment is; of a day, when it would begin then."""
        if not isinstance(moment, datetime):
            return datetime.combine(moment, self.begin.time())
        if moment.tzinfo is not None and not self.is_day:
            moment = moment.astimezone(self.home or zone)
        return _naive(moment.date() if self.is_day else moment)

    def written(self, start: datetime, zone: ZoneInfo) -> str:
        if self.is_day:
            first, last = start.date(), start.date() + self.length - _DAY
            return f"{first}" if last == first else f"{first}..{last}"
        end = _by(start + self.days, self.home, zone, later=self.passing)
        start = _by(start, self.home, zone)
        if end <= start:  # the clocks were set back meanwhile
            end = start + self.length
        return f"{start:%Y-%m-%dT%H:%M}..{end:%Y-%m-%dT%H:%M}"


def _length(event: Any, start: date) -> tuple[timedelta, timedelta]:  # noqa: ANN401
    if event.get("DTEND") is not None:
        end = _moment(event["DTEND"])
        if isinstance(start, datetime) != isinstance(end, datetime):
            raise IcsInvalid("has a day and a time for its two ends")
        if isinstance(start, datetime) and isinstance(end, datetime):
            if (start.tzinfo is None) != (end.tzinfo is None):
                raise IcsInvalid("has a time zone for one of its two ends alone")
            if start.tzinfo is not None:
                return timedelta(0), end.astimezone(UTC) - start.astimezone(UTC)
        return end - start, timedelta(0)
    if event.get("DURATION") is not None:
        length: timedelta = event["DURATION"].dt
        days = timedelta(days=length.days)
        return days, length - days
    return (timedelta(0) if isinstance(start, datetime) else _DAY), timedelta(0)


def _moment(value: Any) -> date:  # noqa: ANN401
    """Give a day, or a time to the minute."""
    moment = value.dt
    if not isinstance(moment, datetime):
        if not isinstance(moment, date):
            raise IcsInvalid(f"{echo(moment)} is neither a day nor a time")
        return moment
    named = value.params.get("TZID")
    if named is not None and moment.tzinfo is None:
        raise IcsInvalid(f"its time zone {echo(str(named))} is unknown")
    return moment.replace(second=0, microsecond=0)


def _listed(event: Any, name: str) -> Iterator[date]:  # noqa: ANN401
    found = event.get(name)
    for group in found if isinstance(found, list) else [found]:
        for value in getattr(group, "dts", ()):
            yield _moment(value)


def _left_out(event: Any, span: _Span, zone: ZoneInfo) -> Callable[[datetime], bool]:  # noqa: ANN401
    """Say which occurrences EXDATE takes out: of a time that one, of a day all that begin on it."""
    listed = list(_listed(event, "EXDATE"))
    whole = {each for each in listed if not isinstance(each, datetime)}
    single = {span.at_home(each, zone) for each in listed if isinstance(each, datetime)}
    return lambda start: start.date() in whole or start in single


def _naive(moment: date) -> datetime:
    if isinstance(moment, datetime):
        return moment.replace(tzinfo=None)
    return datetime.combine(moment, clock_time())


def _by(
    moment: datetime, home: tzinfo | None, zone: ZoneInfo, *, later: timedelta = timedelta(0)
) -> datetime:
    """Say by the clocks of *zone* when it is, *later* by so much time, by those of *home*."""
    if home is None:
        return moment + later
    then = moment.replace(tzinfo=home).astimezone(UTC) + later
    return then.astimezone(zone).replace(tzinfo=None)
