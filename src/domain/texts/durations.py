"""Durations as people write them: `90s`, `5m`, `1h30m`, `250ms`."""

import re
from datetime import timedelta

from .echo import echo

UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}

#: A hundred years: with longer ones, times would overflow.
LONGEST = timedelta(days=36_525)

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
    if duration > LONGEST:
        raise DurationInvalid(f"{echo(text)} is longer than {LONGEST.days}d")
    return duration


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
