"""Times, as people write and read them.

Both are in the zone of `CRON_DISPLAY_TIMEZONE`, or of this machine; a time without an offset is in
the schedule's own zone where the command is about one schedule.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from cronhare.domain.cron import find_zone
from cronhare.domain.cron.timeline import FIRST_MINUTE, LAST_MINUTE, minute_of, moment_of
from cronhare.domain.texts.moments import (
    LONGEST_MOMENT,
    UNITS,
    DurationInvalid,
    in_zone,
    parse_duration,
    read_iso,
    read_time_of_day,
    say_due,
    say_moment,
    say_offset,
)

from ..settings.sources import find_setting
from .errors import Refusal

_WRITE: Final = "write 2026-03-28T08:00:00Z, or 08:00Z"
_WRITE_EITHER: Final = f"{_WRITE}; or how long: 90s, 5m, 1h30m, 2d"

#: What `--since` takes, for the help of commands.
PAST: Final = "2026-03-28T08:00, 22:00 (the last one), yesterday; or 24h for that long ago"
IN_ZONE: Final = "Without an offset it is in CRON_DISPLAY_TIMEZONE, or in this machine's zone"


@cache
def display_zone() -> tzinfo:
    """Find the zone in which people are shown times, once; JSON has them in UTC."""
    named = find_setting("display_timezone", "")
    return find_zone(named) if named else machine_zone()


def machine_zone() -> tzinfo:
    """Find this machine's zone; it is one of today's offset only if `TZ` has rules of its own."""
    name = os.environ.get("TZ")
    try:
        if name is not None:
            return ZoneInfo(name.removeprefix(":"))
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except (LookupError, OSError, ValueError):
        zone = datetime.now().astimezone().tzinfo
        return zone or UTC


def read_time(
    text: str, zone: tzinfo, *, now: datetime, write: str = _WRITE, towards: int = 0
) -> datetime:
    """Read an ISO date-time, or a time of the day that it is at *now*.

    Without an offset it is wall time in *zone*. A time of the day is the last one (*towards* -1),
    or the next one (1). *write* says what is to be written instead of what is none.

    >>> now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    >>> read_time("08:00", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-29T06:00:00+00:00'
    >>> read_time("08:00Z", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-28T08:00:00+00:00'
    """
    try:
        moment = read_iso(text)
    except ValueError:
        moment = _of_day(text, zone, now, write, towards)
    return _far_from_the_edge(text, moment if moment.tzinfo else moment.replace(tzinfo=zone))


def read_past(text: str, zone: tzinfo, *, now: datetime) -> datetime:
    """Read the last such time, a duration that has passed at *now*, or `yesterday`.

    >>> now = datetime(2026, 3, 28, 8, 30, tzinfo=UTC)
    >>> read_past("24h", UTC, now=now).isoformat(), read_past("8:00", UTC, now=now).isoformat()
    ('2026-03-27T08:30:00+00:00', '2026-03-28T08:00:00+00:00')
    """
    if text == "yesterday":
        day = now.astimezone(zone) - timedelta(days=1)
        return datetime.combine(day, time(), zone).astimezone(UTC)
    try:
        return now - parse_duration(text)
    except DurationInvalid:
        return read_time(text, zone, now=now, write=_WRITE_EITHER, towards=-1)


def read_span(
    since: str | None, until: str | None, zone: tzinfo | None = None, *, now: datetime
) -> tuple[datetime | None, datetime | None]:
    zone = zone or display_zone()
    faults, read = list[str](), list[datetime | None]()
    for option, text in (("--since", since), ("--until", until)):
        try:
            read.append(None if text is None else read_past(text, zone, now=now))
        except Refusal as refusal:
            faults.append(f"{option}: {refusal}")
    if not faults and read[0] and read[0] > now:
        faults.append(f"--since: {say_due(read[0], zone)} is still to come")
    if faults:
        raise Refusal("these times cannot be asked for", faults)
    return read[0], read[1]


def none_since(empty: str, since: datetime | None, until: datetime | None = None) -> str:
    if since is None:
        return empty
    return f"None since {due(since)}" + (f" and before {due(until)}." if until else ".")


def read_future(text: str, zone: tzinfo, *, now: datetime) -> datetime:
    """Read a time as `read_time` does, or a duration from *now* on.

    >>> now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    >>> read_future("2h", ZoneInfo("Europe/Berlin"), now=now).isoformat()
    '2026-03-29T01:30:00+00:00'
    """
    try:
        return _far_from_the_edge(text, now + parse_duration(text))
    except DurationInvalid:
        return read_time(text, zone, now=now, write=_WRITE_EITHER, towards=1)


def _far_from_the_edge(text: str, moment: datetime) -> datetime:
    """Refuse a time at which no schedule can be due, or that some zone's calendar lacks."""
    first, last = moment_of(FIRST_MINUTE), moment_of(LAST_MINUTE)
    with suppress(OverflowError):
        instant = moment.astimezone(UTC)
        if FIRST_MINUTE <= minute_of(instant) <= LAST_MINUTE:
            return instant
    allowed = f"times are from {first.date()} to {last.date()}"
    raise Refusal(f'"{text}" is too close to the edge of the calendar; {allowed}')


def _of_day(text: str, zone: tzinfo, now: datetime, write: str, towards: int) -> datetime:
    try:
        wall = read_time_of_day(f"0{text}" if text[1:2] == ":" else text)
    except ValueError as error:
        said = text if len(text) <= LONGEST_MOMENT else f"{text[:LONGEST_MOMENT]}…"
        raise Refusal(f'"{said}" is no time; {write}') from error
    wall = wall.replace(tzinfo=wall.tzinfo or zone)
    day = now.astimezone(wall.tzinfo)
    days = towards if (datetime.combine(day, wall) > now) == (towards < 0) else 0
    return datetime.combine(day + timedelta(days=days), wall)


def moment(value: datetime) -> str:
    return say_moment(value, display_zone())


def due(value: datetime) -> str:
    return say_due(value, display_zone())


_SECOND, _MINUTE, _HOUR, _DAY = (UNITS[unit] for unit in "smhd")
#: From here on the day of the week says less than the date; and further away a number of days.
_WEEK: Final = 6 * _DAY
_FAR: Final = 60 * _DAY


def say_left(length: timedelta) -> str:
    """Print a length of time in its largest unit, rounded down.

    >>> say_left(timedelta(minutes=3, seconds=20)), say_left(timedelta(hours=50))
    ('3 min', '2 d')
    """
    if length < _MINUTE:
        return f"{length // _SECOND} s"
    if length < _HOUR:
        return f"{length // _MINUTE} min"
    if length < 2 * _DAY:
        return f"{length // _HOUR} h"
    return f"{length // _DAY} d"


def say_took(length: timedelta) -> str:
    """Print how long something took.

    >>> say_took(timedelta(milliseconds=120)), say_took(timedelta(seconds=200))
    ('0.12 s', '3 min 20 s')
    """
    seconds = length / _SECOND
    if length < _MINUTE:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if length < _HOUR:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def say_beside(moment: datetime, now: datetime) -> str:
    """Print a moment as people think of it beside *now*; one that is far away as its date.

    >>> say_beside(datetime(2026, 3, 2, 12, 3, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    'in 3 min'
    >>> say_beside(datetime(2026, 3, 2, 10, 0, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    '2 h ago'
    """
    length = moment - now
    if abs(length) >= _FAR:
        return f"{in_zone(moment, display_zone()):%Y-%m-%d}"
    if abs(length) < _SECOND:
        return "now"
    return f"in {say_left(length)}" if length > timedelta(0) else f"{say_left(-length)} ago"


def say_near(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Print a due instant without what it has in common with today.

    >>> noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    >>> say_near(noon + timedelta(minutes=3), noon, UTC)
    '12:03Z'
    >>> say_near(noon + timedelta(days=2), noon, UTC)
    'Wed 12:00Z'
    """
    there = in_zone(moment, zone)
    if abs(moment - now) >= _FAR:
        return f"{there:%Y-%m-%d}"
    if abs(moment - now) >= _WEEK:
        return f"{there:%m-%d}"
    time = f"{there:{'%H:%M:%S' if there.second else '%H:%M'}}{say_offset(there)}"
    return time if there.date() == now.astimezone(zone).date() else f"{there:%a} {time}"
