"""One item of a list, such as `*/5`, `mon-fri` or `2#1`: to a mask, or to a day word."""

import re
from functools import lru_cache

from ..texts.printable import shown
from .extensions import (
    Extension,
    LastDay,
    LastWeekDay,
    LastWorkingDay,
    NearestWorkingDay,
    NthWeekDay,
)
from .kinds import KINDS, MONTH_DAY, WEEK_DAY, FieldKind
from .refusals import Refusal, unknown_name, unreadable

_ITEM = re.compile(r"(?:\*|([0-9]+|[a-z]{3,})(?:-([0-9]+|[a-z]{3,}))?)(?:/([0-9]+))?")
_NEAREST = re.compile(r"([0-9]+)w")
_NTH = re.compile(r"([0-9]+|[a-z]{3})#([1-5])")
_LAST = re.compile(r"([0-9]+|[a-z]{3})l")


def read_word(kind: FieldKind, item: str) -> Extension | None:
    """Read a day word; None if the item is none, or stands in the wrong field."""
    if kind is MONTH_DAY:
        if item == "l":
            return LastDay()
        if item == "lw":
            return LastWorkingDay()
        if match := _NEAREST.fullmatch(item):
            return NearestWorkingDay(_value(kind, item, match[1]))
    if kind is WEEK_DAY:
        if match := _NTH.fullmatch(item):
            return NthWeekDay(_value(kind, item, match[1]) % 7, int(match[2]))
        if match := _LAST.fullmatch(item):
            return LastWeekDay(_value(kind, item, match[1]) % 7)
    return None


@lru_cache(maxsize=1024)
def read_numbers(kind: FieldKind, item: str) -> tuple[int, str]:
    """Read a star, a value or a range, with or without a step: its mask, and a warning or ""."""
    match = _ITEM.fullmatch(item)
    if not match:
        raise unreadable(kind, item)
    start, stop, step_text = match.groups()
    step = 1 if step_text is None else int(step_text)
    if step == 0:
        raise Refusal(f'the step in "{shown(item)}" is 0', "the least step is 1")
    first, last = _bounds(kind, item, start, stop, stepped=step_text is not None)
    if (first, last, step) == (kind.least, kind.last, 1):
        return kind.full, ""
    if step <= last - first:
        return _expand(kind.position, f"{first}-{last}/{step}"), ""
    note = (
        f'{kind.name}: the step in "{shown(item)}" is larger than its range, only {first} is left'
    )
    return kind.bit(first), note if step_text is not None and step > 1 else ""


def range_of(kind: FieldKind, item: str, start: str, stop: str) -> tuple[int, int]:
    """Read a range: its first and its last value."""
    first = _value(kind, item, start)
    return first, _range_end(kind, item, first, stop)


def _bounds(
    kind: FieldKind, item: str, start: str | None, stop: str | None, *, stepped: bool
) -> tuple[int, int]:
    if start is None:
        return kind.least, kind.last
    if stop is not None:
        return range_of(kind, item, start, stop)
    first = _value(kind, item, start)
    if not stepped:
        return first, first
    # An open step runs to the end of the field; Sunday written as 7 is still the first day.
    return (first if first <= kind.last else kind.least), kind.last


def _range_end(kind: FieldKind, item: str, first: int, stop: str) -> int:
    last = _value(kind, item, stop)
    if stop == "sun" and first > 0:
        return 7  # SAT-SUN can only mean the weekend
    if first <= last:
        return last
    hint = f"write {first}-{kind.last},{kind.least}-{last}"
    if kind is WEEK_DAY and last == 0:
        hint = f"write {first}-7: 7 is Sunday too"
    raise Refusal(f'the range "{shown(item)}" runs backwards', hint)


def _value(kind: FieldKind, item: str, text: str) -> int:
    if not text.isdigit():
        if text not in kind.names:
            raise unknown_name(kind, text)
        return kind.names[text]
    value = int(text)
    if not kind.least <= value <= kind.most:
        where = "" if text == item else f' in "{shown(item)}"'
        raise Refusal(f"{shown(text)}{where} is outside {kind.least}-{kind.most}")
    return value


@lru_cache(maxsize=8192)
def _expand(position: int, numbers: str) -> int:
    """Have croniter list the values of a plain stepped range, at its place among the five fields.

    Only ranges of two values or more come here: croniter reads `5-5` as the whole field.

    >>> bin(_expand(0, "0-10/5"))
    '0b10000100001'
    """
    from croniter import croniter  # noqa: PLC0415 - who reads no range does without it

    kind = KINDS[position]
    fields = ["*"] * len(KINDS)
    fields[position] = numbers
    values = croniter.expand(" ".join(fields))[0][position]
    if values == ["*"]:
        return kind.full
    return sum(kind.bit(value) for value in values)
