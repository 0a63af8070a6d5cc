"""Conditions under which a schedule's due instants run: how often, how late, and on which days."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import attrs

from ..texts.durations import LONGEST, say_duration
from ..texts.echo import echo
from ..texts.names import NAME
from .windows import Window, WindowInvalid, parse_window

#: How many runs a schedule may be allowed in all.
MAX_RUNS: Final = range(1, 1_000_000_000 + 1)

#: The most calendars, and the most blackout windows, that a schedule names.
MOST_NAMED: Final = 20
MOST_BLACKOUTS: Final = 100

#: The most characters of JSON that are read as conditions.
LONGEST_CONDITIONS: Final = 16_384

_SHORTEST_EXPIRY: Final = timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class Conditions:
    """What must hold for a due instant to run. Each is without effect unless it is given.

    *max_runs* counts the runs that were due, not those by hand; *expires* is how long after its
    due instant a run may begin. An instant in a calendar of *skip_on* does not run, nor does one
    that is in none of *only_on*; *blackout* has windows in the schedule's own zone.
    """

    max_runs: int | None = None
    expires: timedelta | None = None
    skip_on: tuple[str, ...] = ()
    only_on: tuple[str, ...] = ()
    blackout: tuple[str, ...] = ()

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


@attrs.frozen
class ConditionFault:
    """What is wrong with one of them."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


def read_conditions(
    given: Mapping[str, Any],
) -> tuple[Conditions | None, tuple[ConditionFault, ...]]:
    """Read what a file or a row gives; nothing at all is None.

    *expires* is a duration, or milliseconds.
    """
    faults: list[ConditionFault] = []
    read = _readers()
    values: dict[str, Any] = {}
    for field, value in given.items():
        if field not in read:
            faults.append(ConditionFault(field, f"is not known here; there are {', '.join(read)}"))
        elif value is not None:
            try:
                values[field] = read[field](value)
            except ValueError as error:
                faults.append(ConditionFault(field, str(error)))
    if faults:
        return None, tuple(faults)
    conditions = Conditions(**values)
    return (None if conditions == NONE else conditions), ()


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


@cache
def _readers() -> dict[str, Callable[[object], object]]:
    return {
        "max_runs": _max_runs,
        "expires": _expires,
        "skip_on": _calendars,
        "only_on": _calendars,
        "blackout": _windows,
    }


def _max_runs(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in MAX_RUNS:
        return value
    raise ValueError(f"{echo(value)} is not a whole number, {MAX_RUNS[0]}-{MAX_RUNS[-1]:,}")


def _expires(value: object) -> timedelta:
    if isinstance(value, int) and not isinstance(value, bool):
        most = LONGEST // timedelta(milliseconds=1)
        value = timedelta(milliseconds=value) if abs(value) <= most else None
    if isinstance(value, timedelta) and _SHORTEST_EXPIRY <= value <= LONGEST:
        return value
    raise ValueError(f"must be 1s to {LONGEST.days}d")


def _texts(value: object, *, most: int) -> Sequence[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{echo(value)} is not a list of texts")
    if len(value) > most:
        raise ValueError(f"has {len(value)} entries, {most} are allowed")
    return list(dict.fromkeys(value))


def _calendars(value: object) -> tuple[str, ...]:
    names = _texts(value, most=MOST_NAMED)
    for name in names:
        if not re.fullmatch(NAME, name):
            raise ValueError(f"{echo(name)} is no calendar's name")
    return tuple(names)


def _windows(value: object) -> tuple[str, ...]:
    texts = _texts(value, most=MOST_BLACKOUTS)
    for text in texts:
        try:
            parse_window(text)
        except WindowInvalid as error:
            raise ValueError(str(error)) from error
    return tuple(texts)
