"""Durations, dates and times: as people write them, and as people and programs read them."""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from .printable import echo

UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}

#: A hundred years: with longer ones, times would overflow.
LONGEST_DURATION = timedelta(days=36_525)

_PART = re.compile(r"([0-9]{1,9})(ms|[dhms])")


class DurationInvalid(ValueError):
    """A text that is no duration."""


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)

    Raises:
        DurationInvalid: with what is allowed.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise DurationInvalid(f'{echo(text)} is no duration; write "90s", "5m", "1h30m" or "250ms"')
    try:
        duration = sum((int(number) * UNITS[unit] for number, unit in parts), timedelta(0))
    except OverflowError:
        duration = timedelta.max
    if duration > LONGEST_DURATION:
        raise DurationInvalid(f"{echo(text)} is longer than {LONGEST_DURATION.days}d")
    return duration


def as_span(span: timedelta | str | float) -> timedelta:
    if isinstance(span, str):
        return parse_duration(span)
    return span if isinstance(span, timedelta) else timedelta(seconds=span)


def say_duration(duration: timedelta) -> str:
    """Write a duration so that `parse_duration` reads it back.

    >>> say_duration(timedelta(hours=1, milliseconds=1500))
    '1h1s500ms'
    """
    words = []
    for unit, length in UNITS.items():
        number, duration = divmod(duration, length)
        if number:
            words.append(f"{number}{unit}")
    return "".join(words) or "0s"


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Give a moment in a zone; in UTC at an end of the calendar, which that zone lacks."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment.astimezone(UTC)


def say_offset(moment: datetime) -> str:
    """Print a moment's offset from UTC as `read_iso` takes it: `Z`, `+01`, `+05:30`."""
    offset = moment.isoformat(timespec="seconds")[19:]
    return "Z" if offset == "+00:00" else offset.removesuffix(":00")


def say_moment(moment: datetime, zone: tzinfo = UTC) -> str:
    """Print a moment to the second: `2026-03-02 12:00:30Z`, or `2026-03-02 13:00:30+01`."""
    there = in_zone(moment, zone)
    return f"{there:%Y-%m-%d %H:%M:%S}{say_offset(there)}"


def iso_moment(moment: datetime) -> str:
    """Write a moment in ISO 8601, for programs; without a fraction where there is none."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def say_due(moment: datetime, zone: tzinfo = UTC) -> str:
    """Print a due instant, to the minute unless it is none: `2026-03-02 12:00Z`."""
    there = in_zone(moment, zone)
    form = "%Y-%m-%d %H:%M:%S" if moment.second else "%Y-%m-%d %H:%M"
    return f"{there:{form}}{say_offset(there)}"


def say_time(moment: datetime, zone: tzinfo = UTC) -> str:
    there = in_zone(moment, zone)
    return f"{there:%H:%M:%S}{say_offset(there)}"


def iso_ms(moment: datetime) -> str:
    """Write a moment for messages and log lines: ISO 8601 with milliseconds and a Z.

    >>> iso_ms(datetime(2025, 12, 12, 12, 3, 39, 2999, tzinfo=UTC))
    '2025-12-12T12:03:39.002Z'
    """
    return f"{moment.astimezone(UTC).isoformat(timespec='milliseconds')[:-6]}Z"


#: So many characters of a time are read.
LONGEST_MOMENT: Final = 64

_SECONDS: Final = r"([0-9]{2}:[0-9]{2}:[0-9]{2}|[0-9]{6})[.,][0-9]{1,9}"
_TIME: Final = rf"({_SECONDS}|[0-9:]{{2,8}})(Z|[+-][0-9:]{{2,8}})?"
_TIME_OF_DAY: Final = re.compile(rf"T?{_TIME}")
_MOMENT: Final = re.compile(rf"[0-9W-]{{7,10}}([Tt ]{_TIME})?")


def read_iso(text: str) -> datetime:
    """Read a date, or a date and a time, which has a zone if it is written with an offset.

    >>> read_iso("2026-03-02T08:00Z").isoformat(), read_iso("20260302").isoformat()
    ('2026-03-02T08:00:00+00:00', '2026-03-02T00:00:00')

    Raises:
        ValueError: it is none, or too long.
    """
    return datetime.fromisoformat(_checked(text, _MOMENT))


def read_time_of_day(text: str) -> time:
    return time.fromisoformat(_checked(text, _TIME_OF_DAY))


def _checked(text: str, form: re.Pattern[str]) -> str:
    # `fromisoformat` takes any letter between date and time, and digits without end behind both.
    if len(text) > LONGEST_MOMENT or form.fullmatch(text) is None:
        raise ValueError("it is no date and time")
    return text
