"""Conditions under which a schedule's due instants run: how often, how late, and on which days."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final
from zoneinfo import ZoneInfo

import attrs

from ..reading import Fault, Invalid, Reads, read_table, whole_number
from ..texts.moments import LONGEST_DURATION, say_duration
from ..texts.printable import echo
from ..texts.words import NAME
from .windows import Window, parse_window

#: How many runs a schedule may be allowed in all.
MAX_RUNS: Final = range(1, 1_000_000_000 + 1)

#: The most calendars, and the most blackout windows, that a schedule names.
MOST_NAMED: Final = 20
MOST_BLACKOUTS: Final = 100

#: The most characters of JSON that are read as conditions.
LONGEST_CONDITIONS: Final = 16_384

_MILLISECOND: Final = timedelta(milliseconds=1)
_EXPIRIES: Final = range(1_000, LONGEST_DURATION // _MILLISECOND + 1)


def checked_expiry(expiry: timedelta) -> timedelta:
    """Give back how long after its due instant a run may begin, if it may be so long.

    Raises:
        ValueError: it may not.
    """
    if expiry // _MILLISECOND not in _EXPIRIES:
        raise ValueError(f"must be 1s to {LONGEST_DURATION.days}d")
    return expiry


def _expiry(milliseconds: int) -> timedelta:
    return checked_expiry(max(min(milliseconds, _EXPIRIES.stop), 0) * _MILLISECOND)


def _calendars(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in _few(names, MOST_NAMED):
        if not re.fullmatch(NAME, name):
            raise ValueError(f"{echo(name)} is no calendar's name")
    return tuple(dict.fromkeys(names))


def _blackouts(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in _few(texts, MOST_BLACKOUTS):
        parse_window(text)
    return tuple(dict.fromkeys(texts))


def _few(entries: tuple[str, ...], most: int) -> tuple[str, ...]:
    if len(entries) > most:
        raise ValueError(f"has {len(entries)} entries, {most} are allowed")
    return entries


MaxRuns = Annotated[int, whole_number(MAX_RUNS)]
Calendars = Annotated[tuple[str, ...], Reads(_calendars)]
Blackouts = Annotated[tuple[str, ...], Reads(_blackouts)]
if TYPE_CHECKING:
    _Expiry = timedelta
else:
    _Expiry = Annotated[int, Reads(_expiry)]  # as it is written


@attrs.frozen(kw_only=True)
class Conditions:
    """What must hold for a due instant to run. Each is without effect unless it is given.

    *max_runs* counts the runs that were due, not those by hand; *expires* is how long after its
    due instant a run may begin. An instant in a calendar of *skip_on* does not run, nor does one
    that is in none of *only_on*; *blackout* has windows in the schedule's own zone.
    """

    max_runs: MaxRuns | None = None
    expires: _Expiry | None = None
    skip_on: Calendars = ()
    only_on: Calendars = ()
    blackout: Blackouts = ()

    @property
    def calendars(self) -> tuple[str, ...]:
        """The calendars that it names."""
        return (*self.skip_on, *self.only_on)

    def blacked_out_by(self, instant: datetime, zone: ZoneInfo) -> Window | None:
        """Find the blackout window that an instant is in."""
        return next((w for w in map(parse_window, self.blackout) if w.covers(instant, zone)), None)


NONE: Final = Conditions()


def expired(after: timedelta) -> str:
    """Say that a run did not begin in time: a row by hand may have an end before its begin."""
    if after < timedelta(0):
        return "expired: it was to start before its due instant, and cannot"
    return f"expired: not started within {say_duration(after)} of its due instant"


def read_conditions(given: object) -> Conditions | None:
    """Read what a row gives; nothing at all is None.

    Raises:
        Invalid: with every fault at once.
    """
    if isinstance(given, Mapping):
        given = {field: value for field, value in given.items() if value is not None}
    faults = list[Fault]()
    conditions = read_table(Conditions, given, faults, quote=echo)
    if faults:
        raise Invalid(faults)
    return None if conditions == NONE else conditions


def write_conditions(conditions: Conditions) -> dict[str, Any]:
    """Write them so that `read_conditions` gives them back."""
    written: dict[str, Any] = {}
    if conditions.max_runs is not None:
        written["max_runs"] = conditions.max_runs
    if conditions.expires is not None:
        written["expires"] = conditions.expires // timedelta(milliseconds=1)
    for field in ("skip_on", "only_on", "blackout"):
        if names := getattr(conditions, field):
            written[field] = list(names)
    return written
