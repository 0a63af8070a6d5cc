"""Dates and times that somebody wrote: ISO 8601, read with care.

Python's `fromisoformat` takes any letter between date and time, and digits without end behind both;
and a fraction of an hour or a minute for one of a second.
"""

import re
from datetime import datetime, time
from typing import Final

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
    """Read a time of the day, as `read_iso` does.

    Raises:
        ValueError: it is none, or too long.
    """
    return time.fromisoformat(_checked(text, _TIME_OF_DAY))


def _checked(text: str, form: re.Pattern[str]) -> str:
    if len(text) > LONGEST_MOMENT or form.fullmatch(text) is None:
        raise ValueError("it is no date and time")
    return text
