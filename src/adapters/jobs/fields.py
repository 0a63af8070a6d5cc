"""The kinds of fields in a jobs file: what may be written, and what is read of it."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from cronhare.domain.cron import resolve_wall_time
from cronhare.domain.reading import Fault, Invalid, Reads, whole_number, written
from cronhare.domain.schedules.catalog import ALLOWED, TOPIC
from cronhare.domain.schedules.task import LARGEST_NUMBER, USER_NAME
from cronhare.domain.texts.moments import parse_duration, read_iso


def read_moment(
    field: str, value: object, zone: ZoneInfo | None, faults: list[Fault], *, fold: int = 0
) -> datetime | None:
    """Read a moment: an instant if it has an offset, else wall time in *zone*.

    Without a zone, which has a fault of its own then, there is none of wall time.
    """
    if value is None:
        return None
    try:
        moment = _moment(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        return None if zone is None else resolve_wall_time(moment, zone, fold=fold)
    except OverflowError:
        faults.append(Fault(field, f"{written(value)} is too close to the edge of the calendar"))
    except ValueError as error:
        faults.append(Fault(field, str(error)))
    return None


def _moment(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        day = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        day = None
    if isinstance(day, date):
        text = f"{day} has no time; write {day}T00:00:00"
        raise ValueError(text)  # noqa: TRY004 - a fault of the file
    try:
        return read_iso(value if isinstance(value, str) else "")
    except ValueError:  # the standard library's message says less
        text = f'{written(value)} is no date-time; write "2025-12-15T15:00:00Z"'
        raise ValueError(text) from None


def _longer_than_nothing(text: str) -> timedelta:
    duration = parse_duration(text)
    if not duration:
        raise ValueError("must be longer than nothing")
    return duration


def as_json(value: object) -> str:
    """Write what TOML can hold as JSON.

    Raises:
        Invalid: with all that is no JSON.
    """
    if faults := [*_beyond_json("", value)]:
        raise Invalid(faults)
    return msgspec.json.encode(value).decode()


def _beyond_json(place: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401 - what TOML can hold
    match value:
        case dict():
            for name, inner in value.items():
                yield from _beyond_json(f"{place}.{name}" if place else name, inner)
        case list():
            for index, inner in enumerate(value):
                yield from _beyond_json(f"{place}[{index}]", inner)
        case float() if not math.isfinite(value):
            yield Fault(place, f"{value} is no number in JSON")
        case date() | time():  # a datetime is a date
            yield Fault(place, f"{written(value).strip(chr(34))} is no JSON; put it in quotes")


def _command(words: list[str]) -> list[str]:
    """Refuse what no operating system could start."""
    if not words[0]:
        raise ValueError("its first text names the program, and is empty")
    without_nul(*words)
    return words


def without_nul(*texts: str) -> str:
    """Give back the first of some texts, if a program can be given them all.

    Raises:
        ValueError: it cannot.
    """
    if any("\0" in text for text in texts):
        raise ValueError("has a NUL character, which no program can be given")
    return texts[0] if texts else ""


# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    SomeTime = timedelta
else:
    SomeTime = Annotated[str, Reads(_longer_than_nothing)]

Command = Annotated[
    list[str],
    Meta(min_length=1, description="a list of texts, at least one"),
    Reads(_command),
]
JsonText = Annotated[Any, Reads(as_json)]
Id = Annotated[int, whole_number(range(1, LARGEST_NUMBER + 1))]
Folder = Annotated[str, Reads(without_nul)]
Topic = Annotated[str, Meta(pattern=TOPIC, description=f"a topic: {ALLOWED}")]
User = Annotated[
    str,
    Meta(
        pattern=USER_NAME,
        description="a user's name: letters, digits, dot, dash and underscore, at most 32",
    ),
]
