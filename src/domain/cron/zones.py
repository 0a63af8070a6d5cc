"""Time zones by name, and a single wall time of one."""

import re
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ..texts.printable import LONGEST_ECHO, shown
from .timeline import DAY, FIRST_MINUTE, LAST_MINUTE, moment_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_OFFSET = re.compile(r"(utc|gmt)?[+-]\d{1,2}(:?\d\d)?", re.IGNORECASE)

# Files beside the zones: what they hold depends on the machine, or counts leap seconds.
_NOT_A_PLACE = re.compile(r"local(time)?|posixrules|factory|(posix|right)/.*", re.IGNORECASE)


class UnknownZone(ValueError):
    """A name that is not in the zone data. *hint* says what may have been meant, or is empty."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(name, hint)
        self.name = name
        self.hint = hint

    def __str__(self) -> str:
        return f'unknown zone "{shown(self.name)}"' + (f" ({self.hint})" if self.hint else "")


@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo:
    """Find a zone by its IANA name, exactly as it is spelt there.

    Raises:
        UnknownZone: there is none of that name, or it is not one that every node would read alike.
    """
    if len(name) > LONGEST_ECHO or not _NAME.fullmatch(name) or _NOT_A_PLACE.fullmatch(name):
        raise UnknownZone(name, _hint(name))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a folder is an OSError
        raise UnknownZone(name, _hint(name)) from error


def _hint(name: str) -> str:
    if _NOT_A_PLACE.fullmatch(name):
        return "it would differ from node to node; name a place, such as Europe/Berlin"
    if _OFFSET.fullmatch(name):
        return "an offset is not a zone; name a place, such as Europe/Berlin, or UTC"
    wanted = name[:LONGEST_ECHO].strip().replace(" ", "_").casefold()
    known = sorted(available_timezones())
    close = [key for key in known if wanted and key.casefold().rpartition("/")[2] == wanted]
    folded = {key.casefold(): key for key in known}
    close = close or [folded[key] for key in get_close_matches(wanted, folded, n=2)]
    return f"did you mean {' or '.join(close)}?" if close else ""


#: No offset leads beyond the calendar from within these.
_EARLIEST, _LATEST = (
    moment_of(minute).replace(tzinfo=None) for minute in (FIRST_MINUTE + DAY, LAST_MINUTE - DAY)
)


def resolve_wall_time(naive: datetime, zone: ZoneInfo, fold: int = 0) -> datetime:
    """The instant, in UTC, at which the wall clock of the zone shows *naive*. Seconds are cut.

    Of a time that comes twice the first pass is meant, with *fold* = 1 the second.

    Raises:
        ValueError: the clock never shows that time, or it is at an edge of the calendar.
    """
    wall = naive.replace(second=0, microsecond=0)
    if not _EARLIEST <= wall <= _LATEST:
        raise ValueError(f"{naive} is too close to the edge of the calendar")
    instant = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    if shown != wall:
        leap = f"{wall:%Y-%m-%d %H:%M} does not exist in {zone}: the clock leaps over it"
        raise ValueError(f"{leap}, and shows {shown:%Y-%m-%d %H:%M} in its place")
    return instant
