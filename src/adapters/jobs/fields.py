"""The kinds of fields in a jobs file: what may be written, and what is read of it."""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from cronhare.domain.cron import resolve_wall_time
from cronhare.domain.events.rules import LARGEST_FACTOR, LARGEST_OUTPUT, LONGEST_WAIT, Deadline
from cronhare.domain.reading import A_DURATION, Fault, Invalid, Reads, whole_number, written
from cronhare.domain.schedules.catalog import ALLOWED, TOPIC
from cronhare.domain.schedules.task import LARGEST_NUMBER, USER_NAME
from cronhare.domain.texts.moments import DurationInvalid, parse_duration, read_iso, say_duration

#: Against what is said farther away.
_OFF: Final = "off"

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([kKMG]i?)?B?")
_POWERS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3}


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
    """Write what TOML can hold as JSON. Raises Invalid: with all that is no JSON."""
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
    if not words[0]:
        raise ValueError("its first text names the program, and is empty")
    return words


def _deadline(value: object) -> Deadline:
    if value == _OFF:
        return Deadline()
    text = value if isinstance(value, str) else ""
    if _TIME.fullmatch(text):
        return Deadline(time_of_day=time.fromisoformat(text))
    with suppress(DurationInvalid):
        after = parse_duration(text)
        if timedelta(0) < after <= LONGEST_WAIT:
            return Deadline(after=after)
    allowed = f'a time after it is due such as "5m", at most {say_duration(LONGEST_WAIT)}'
    others = 'nor a time of day "06:30", nor off'
    raise ValueError(f"{written(value)} is neither {allowed}, {others}")


def _factor(value: object) -> float:
    if value == _OFF:
        return 0.0
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 1 < value <= LARGEST_FACTOR:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    most = f"{LARGEST_FACTOR:,.0f}"
    raise ValueError(f"{written(value)} is no number above 1, at most {most}, nor off")


def _size(value: object) -> int:
    if value == _OFF:
        return 0
    text = str(value) if isinstance(value, str | int) else ""
    if found := _SIZE.fullmatch(text):
        unit = found[2] or ""
        base = 1_024 if unit.endswith("i") else 1_000
        size: int = int(found[1]) * base ** _POWERS[unit[:1]]
        if 0 < size <= LARGEST_OUTPUT:
            return size
    raise ValueError(f'{written(value)} is no size such as 100, "100B", "2kB" or "1MiB", nor off')


# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    SomeTime = timedelta
else:
    SomeTime = Annotated[str, A_DURATION, Reads(_longer_than_nothing)]

Command = Annotated[
    list[str], Meta(min_length=1, description="a list of texts, at least one"), Reads(_command)
]
JsonText = Annotated[Any, Reads(as_json)]
DeadlineAsWritten = Annotated[Any, Reads(_deadline)]
FactorAsWritten = Annotated[Any, Reads(_factor)]
SizeAsWritten = Annotated[Any, Reads(_size)]
Id = Annotated[int, whole_number(range(1, LARGEST_NUMBER + 1))]
Topic = Annotated[str, Meta(pattern=TOPIC, description=f"a topic: {ALLOWED}")]
User = Annotated[
    str,
    Meta(
        pattern=USER_NAME,
        description="a user's name: letters, digits, dot, dash and underscore, at most 32",
    ),
]
