"""Fields that are more than their TOML type: durations, moments, params."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from cronhare.domain.cron import Fold, resolve_wall_time
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.texts.durations import DurationInvalid, parse_duration
from cronhare.domain.texts.written_moments import read_iso

from .tables import written


def read_duration(field: str, text: str | None, faults: list[Fault]) -> timedelta | None:
    """Read `5m` and the like."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except DurationInvalid as error:
        faults.append(Fault(field, str(error)))
        return None


def out_of_place(table: object, fields: tuple[str, ...], why: str) -> Iterator[Fault]:
    """Find those of the *fields* that a table has and may not have, with the reason *why*."""
    return (Fault(field, why) for field in fields if getattr(table, field))


def read_fold(value: str | int) -> Fold:
    """Read `first` and the like, or 0 and 1 as Python's `datetime` has it.

    >>> read_fold(1), read_fold("both")
    (<Fold.SECOND: 'second'>, <Fold.BOTH: 'both'>)
    """
    return (Fold.FIRST, Fold.SECOND)[value] if isinstance(value, int) else Fold(value)


def read_moment(
    field: str,
    value: object,
    zone: ZoneInfo | None,
    faults: list[Fault],
    *,
    fold: int = 0,
) -> datetime | None:
    """Read a moment: an instant if it has an offset, else wall time in *zone*."""
    if value is None:
        return None
    try:
        moment = _moment(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        if zone is None:
            return None  # the zone has a fault of its own
        return resolve_wall_time(moment, zone, fold=fold)
    except OverflowError:
        faults.append(Fault(field, f"{written(value)} is too close to the edge of the calendar"))
    except ValueError as error:
        faults.append(Fault(field, str(error)))
    return None


def read_params(value: object, faults: list[Fault], *, field: str = "params") -> str:
    """Write params as JSON text."""
    faults += _beyond_json(field, value)
    return msgspec.json.encode(value).decode()


def _moment(value: object) -> datetime:
    match value:
        case datetime():
            return value
        case date():
            raise ValueError(f"{value} has no time; write {value}T00:00:00")
        case str():
            return _moment_of_text(value)
    raise _no_moment(value)


def _moment_of_text(text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        pass
    else:
        raise ValueError(f"{text} has no time; write {day}T00:00:00")
    try:
        return read_iso(text)
    except ValueError:
        raise _no_moment(text) from None  # the standard library's message says less


def _no_moment(value: object) -> ValueError:
    return ValueError(f'{written(value)} is no date-time; write "2025-12-15T15:00:00Z"')


def _beyond_json(place: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401 - what TOML can hold
    match value:
        case dict():
            for name, inner in value.items():
                yield from _beyond_json(f"{place}.{name}", inner)
        case list():
            for index, inner in enumerate(value):
                yield from _beyond_json(f"{place}[{index}]", inner)
        case float() if not math.isfinite(value):
            yield Fault(place, f"{value} is no number in JSON")
        case date() | time():  # a datetime is a date
            yield Fault(place, f"{written(value).strip(chr(34))} is no JSON; put it in quotes")
