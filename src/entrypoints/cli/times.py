"""Times, read as people write them."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.texts.durations import DurationInvalid, parse_duration
from cronhare.domain.texts.written_moments import LONGEST_MOMENT, read_iso, read_time_of_day

from .errors import Refusal

_UTC: Final = ZoneInfo("UTC")

_WRITE: Final = "write 2026-03-28T08:00:00Z, or 08:00Z"
_WRITE_EITHER: Final = f"{_WRITE}; or how long: 90s, 5m, 1h30m, 2d"


def read_time(text: str, zone: ZoneInfo, *, now: datetime, write: str = _WRITE) -> datetime:
    """Read an ISO date-time, or a time of the day that it is at *now*.

    Without an offset it is wall time in *zone*. *write* says what is to be written instead of what
    is none.

    >>> now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    >>> read_time("08:00", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-29T06:00:00+00:00'
    >>> read_time("08:00Z", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-28T08:00:00+00:00'

    Raises:
        Refusal: it is none.
    """
    try:
        moment = read_iso(text)
    except ValueError:
        moment = _today(text, zone, now, write)
    return _far_from_the_edge(text, moment if moment.tzinfo else moment.replace(tzinfo=zone))


def read_past(text: str, zone: ZoneInfo = _UTC, *, now: datetime) -> datetime:
    """Read a time as `read_time` does, or a duration that has passed at *now*.

    >>> now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    >>> read_past("24h", now=now).isoformat(), read_past("08:00", now=now).isoformat()
    ('2026-03-27T23:30:00+00:00', '2026-03-28T08:00:00+00:00')

    Raises:
        Refusal: it is neither.
    """
    try:
        return now - parse_duration(text)
    except DurationInvalid:
        return read_time(text, zone, now=now, write=_WRITE_EITHER)


def read_future(text: str, zone: ZoneInfo, *, now: datetime) -> datetime:
    """Read a time as `read_time` does, or a duration from *now* on.

    >>> now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    >>> read_future("2h", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-29T01:30:00+00:00'

    Raises:
        Refusal: it is neither.
    """
    try:
        return _far_from_the_edge(text, now + parse_duration(text))
    except DurationInvalid:
        return read_time(text, zone, now=now, write=_WRITE_EITHER)


def _far_from_the_edge(text: str, moment: datetime) -> datetime:
    """Refuse a time at which no schedule can be due, or that some zone's calendar lacks."""
    first, last = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)
    with suppress(OverflowError):
        instant = moment.astimezone(UTC)
        if FIRST_MINUTE <= minute_of(instant) <= LAST_MINUTE:
            return instant
    allowed = f"times are from {first.date()} to {last.date()}"
    raise Refusal(f'"{text}" is too close to the edge of the calendar; {allowed}')


def _today(text: str, zone: ZoneInfo, now: datetime, write: str) -> datetime:
    try:
        wall = read_time_of_day(text)
    except ValueError as error:
        said = text if len(text) <= LONGEST_MOMENT else f"{text[:LONGEST_MOMENT]}…"
        raise Refusal(f'"{said}" is no time; {write}') from error
    return datetime.combine(now.astimezone(wall.tzinfo or zone), wall)
