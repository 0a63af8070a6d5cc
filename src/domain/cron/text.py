"""A cron text, read: five fields or an alias, each field a mask and day words, or its faults.

Every fault is reported at once. Start reading at `split_fields` and `read_field`. `H` becomes a
number that the schedule's name fixes, as in Jenkins, before the fields are read.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

import attrs

from ..texts.printable import shown
from .calendar import (
    Extension,
    LastDay,
    LastWeekDay,
    LastWorkingDay,
    NearestWorkingDay,
    NthWeekDay,
)

LONGEST_TEXT: Final = 256
FIELDS: Final = 5

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

#: Of what other programs read as well: why it is refused, and what to write instead.
_ELSEWHERE: Final = {
    "@reboot": ("@reboot is not a time", "write on_boot = true in the jobs file instead"),
    "@every": ("@every is no cron text", 'give the schedule every = "5m" instead'),
}

#: The last day of a month that `H` takes: one that each month has.
LAST_HASHED_DAY: Final = 28


@attrs.frozen
class CronFault:
    """One fault of a cron text: in which *field*, or in the "expression", and what to write."""

    field: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


class CronExpressionError(ValueError):
    """A text that is no cron expression. `faults` holds every fault, in the order of the text."""

    def __init__(self, *faults: CronFault) -> None:
        super().__init__(*faults)  # so that args, and with them pickle, keep the faults
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))


class _Refusal(Exception):
    """An item of a field is not accepted."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.reason, self.hint = reason, hint


@attrs.frozen(kw_only=True, eq=False)
class FieldKind:
    """One of the five places; the week day has seven values, as 0 and 7 are both Sunday."""

    name: str
    position: int
    least: int
    most: int
    size: int
    names: Mapping[str, int] = MappingProxyType({})

    @property
    def last(self) -> int:
        """The value at which an open step such as `5/2` ends."""
        return self.least + self.size - 1

    @property
    def full(self) -> int:
        return (1 << self.size) - 1

    def bit(self, value: int) -> int:
        """The mask of one value; bit 0 is the least."""
        return 1 << (value - self.least) % self.size


def _named(names: str, start: int) -> Mapping[str, int]:
    return MappingProxyType({name: start + index for index, name in enumerate(names.split())})


_MONTHS: Final = _named("jan feb mar apr may jun jul aug sep oct nov dec", 1)
_WEEK: Final = _named("sun mon tue wed thu fri sat", 0)

MINUTE: Final = FieldKind(name="minute", position=0, least=0, most=59, size=60)
HOUR: Final = FieldKind(name="hour", position=1, least=0, most=23, size=24)
MONTH_DAY: Final = FieldKind(name="day of month", position=2, least=1, most=31, size=31)
MONTH: Final = FieldKind(name="month", position=3, least=1, most=12, size=12, names=_MONTHS)
WEEK_DAY: Final = FieldKind(name="week day", position=4, least=0, most=7, size=7, names=_WEEK)
KINDS: Final = (MINUTE, HOUR, MONTH_DAY, MONTH, WEEK_DAY)


@attrs.frozen(kw_only=True, eq=False)
class Field:
    """A field, read. Bit 0 of *mask* is the least value of its kind; *words* are day words.

    *notes* are warnings. If there are *faults*, the rest means nothing.
    """

    text: str
    mask: int
    words: tuple[Extension, ...]
    notes: tuple[str, ...]
    faults: tuple[CronFault, ...]

    @property
    def plain(self) -> bool:
        """Whether the field restricts nothing: only a bare star or question mark does so."""
        return self.text in {"*", "?"}

    @property
    def starred(self) -> bool:
        """Whether the text begins with a star; in minute or hour that makes a wildcard job."""
        return self.text.startswith("*")


def split_fields(text: str) -> list[str]:
    """Split a text into its five fields, in lower case.

    Raises:
        CronExpressionError: the text as a whole is not what we read.
    """
    if len(text) > LONGEST_TEXT:
        raise _refused(f"the text has {len(text)} characters, {LONGEST_TEXT} are allowed")
    spaced = text.replace("\t", " ")
    if not spaced.isascii():
        raise _refused("only ASCII characters are allowed", "look for pasted dashes or blanks")
    if not spaced.isprintable():
        raise _refused("line breaks and control characters are not allowed")
    fields = spaced.lower().split()
    if not fields:
        raise _refused("the text is empty", "write * * * * * for every minute")
    first = fields[0]
    if first in _ELSEWHERE:
        raise _refused(*_ELSEWHERE[first])
    if first.startswith("@"):
        return _fields_of_alias(first, alone=len(fields) == 1)
    if first.startswith(("tz=", "cron_tz=")):
        hint = "set the schedule's timezone instead"
        raise _refused("a zone inside the text is not supported", hint)
    if len(fields) == FIELDS + 1:
        hint = 'remove the sixth field, or give the schedule every = "30s" instead'
        raise _refused("five fields expected, seconds are not supported", hint)
    if len(fields) != FIELDS:
        raise _refused(f"five fields expected, found {len(fields)}")
    return fields


def _fields_of_alias(alias: str, *, alone: bool) -> list[str]:
    if alias not in ALIASES:
        close = get_close_matches(alias[:16], ALIASES, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise _refused(f'the alias "{shown(alias)}" is unknown', hint)
    if not alone:
        raise _refused(f"nothing may follow {alias}")
    return ALIASES[alias].split()


def _refused(reason: str, hint: str = "") -> CronExpressionError:
    return CronExpressionError(CronFault("expression", reason, hint))


@lru_cache(maxsize=8192)
def read_field(kind: FieldKind, text: str) -> Field:
    """Read a field, in lower case. It never raises: what is wrong is in `faults`."""
    mask = 0
    words: list[Extension] = []
    notes: list[str] = []
    faults: list[CronFault] = []
    is_any = text == "?" and kind in {MONTH_DAY, WEEK_DAY}
    for item in ["*"] if is_any else text.split(","):
        try:
            if word := _read_word(kind, item):
                words.append(word)
                continue
            bits, note = _read_numbers(kind, item)
        except _Refusal as refusal:
            faults.append(CronFault(kind.name, refusal.reason, refusal.hint))
        else:
            mask |= bits
            notes += [note] if note else []
    return Field(
        text=text,
        mask=mask,
        words=tuple(words),
        notes=tuple(dict.fromkeys(notes)),
        faults=tuple(dict.fromkeys(faults)),
    )


_NEAREST: Final = re.compile(r"([0-9]+)w")
_NTH: Final = re.compile(r"([0-9]+|[a-z]{3})#([1-5])")
_LAST: Final = re.compile(r"([0-9]+|[a-z]{3})l")


def _read_word(kind: FieldKind, item: str) -> Extension | None:
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


_ITEM: Final = re.compile(r"(?:\*|([0-9]+|[a-z]{3,})(?:-([0-9]+|[a-z]{3,}))?)(?:/([0-9]+))?")


@lru_cache(maxsize=1024)
def _read_numbers(kind: FieldKind, item: str) -> tuple[int, str]:
    """Read a star, a value or a range, with or without a step: its mask, and a warning or ""."""
    match = _ITEM.fullmatch(item)
    if not match:
        raise _unreadable(kind, item)
    start, stop, step_text = match.groups()
    step = 1 if step_text is None else _step(item, step_text)
    if start is None:
        first, last = kind.least, kind.last
    elif stop is not None:
        first, last = _range(kind, item, start, stop)
    else:
        first = last = _value(kind, item, start)
        if step_text is not None:
            # An open step runs to the field's end; Sunday written as 7 is still the first day.
            first, last = (first if first <= kind.last else kind.least), kind.last
    if (first, last, step) == (kind.least, kind.last, 1):
        return kind.full, ""
    if step <= last - first:
        return _expand(kind.position, f"{first}-{last}/{step}"), ""
    note = f'the step in "{shown(item)}" is larger than its range, only {first} is left'
    return kind.bit(first), f"{kind.name}: {note}" if step > 1 else ""


def _step(item: str, text: str) -> int:
    step = int(text)
    if step == 0:
        raise _Refusal(f'the step in "{shown(item)}" is 0', "the least step is 1")
    return step


def _range(kind: FieldKind, item: str, start: str, stop: str) -> tuple[int, int]:
    first, last = _value(kind, item, start), _value(kind, item, stop)
    if stop == "sun" and first > 0:
        return first, 7  # SAT-SUN can only mean the weekend
    if first <= last:
        return first, last
    hint = f"write {first}-{kind.last},{kind.least}-{last}"
    if kind is WEEK_DAY and last == 0:
        hint = f"write {first}-7: 7 is Sunday too"
    raise _Refusal(f'the range "{shown(item)}" runs backwards', hint)


def _value(kind: FieldKind, item: str, text: str) -> int:
    if not text.isdigit():
        if text not in kind.names:
            raise _unknown_name(kind, text)
        return kind.names[text]
    value = int(text)
    if not kind.least <= value <= kind.most:
        where = "" if text == item else f' in "{shown(item)}"'
        raise _Refusal(f"{shown(text)}{where} is outside {kind.least}-{kind.most}")
    return value


@lru_cache(maxsize=8192)
def _expand(position: int, numbers: str) -> int:
    """Have croniter list a plain stepped range of two values or more: it reads `5-5` as all."""
    from croniter import croniter  # noqa: PLC0415 - who reads no range does without it

    fields = ["*"] * FIELDS
    fields[position] = numbers
    values = croniter.expand(" ".join(fields))[0][position]
    kind = KINDS[position]
    return kind.full if values == ["*"] else sum(kind.bit(value) for value in values)


#: What looks like a day word, the fields that it belongs to, and how it is written there.
_WORDS: Final = (
    (re.compile(r".*\?.*"), (MONTH_DAY, WEEK_DAY), "? alone, or *"),
    (re.compile(r"[0-9]+w|lw?|l-.*"), (MONTH_DAY,), "L, LW, or 1W to 31W"),
    (
        re.compile(r".*#.*|([0-9]+|[a-z]{3})l|l[0-7]"),
        (WEEK_DAY,),
        "dL or d#k, such as 5L or FRI#2; k is 1-5",
    ),
)


def _unreadable(kind: FieldKind, item: str) -> _Refusal:
    if not item:
        return _Refusal("an item of the list is empty", "remove the extra comma")
    for pattern, kinds, form in _WORDS:
        if pattern.fullmatch(item) and kind in kinds:
            return _Refusal(f'"{shown(item)}" is not understood', f"write {form}")
        if pattern.fullmatch(item):
            names = " or the ".join(each.name for each in kinds)
            return _Refusal(f'"{shown(item)}" belongs to the {names}')
    if item.isalpha():
        return _unknown_name(kind, item)
    hint = "write *, a, a-b, */s, a/s or a-b/s"
    return _Refusal(f'"{shown(item)}" is not understood', hint)


def _unknown_name(kind: FieldKind, name: str) -> _Refusal:
    if not kind.names:
        return _Refusal(f'"{shown(name)}" is not a number')
    close = get_close_matches(name[:9], kind.names, n=1)
    hint = f"did you mean {close[0].upper()}?" if close else ""
    return _Refusal(f'"{shown(name)}" is not a {kind.name}', hint)


#: An item that is hashed: no name of a month or a day begins so.
_HASHED: Final = re.compile(r"(?:^|[\s,])h", re.IGNORECASE)
_HASHED_ITEM: Final = re.compile(r"h(?:\(([0-9a-z]+)-([0-9a-z]+)\))?(?:/([0-9]+))?")


def names_matter(text: str) -> bool:
    """Tell whether a cron text may mean something else for each name, without reading it.

    >>> names_matter("H 3 * * *"), names_matter("0 3 * * THU"), names_matter("@hourly")
    (True, False, False)
    """
    # The letter alone says no for nearly all, in a tenth of the time.
    return ("h" in text or "H" in text) and _HASHED.search(text) is not None


def resolve(
    fields: Sequence[str], name: str | None
) -> tuple[tuple[str, ...], tuple[CronFault, ...]]:
    """Put the numbers of the schedule called *name* for each H; if there are faults, in vain.

    `H/15` becomes, say, `7-59/15`: another number for each name and field, the same for ever.
    """
    faults: list[CronFault] = []
    resolved: list[str] = []
    for kind, field in zip(KINDS, fields, strict=True):
        items: list[str] = []
        for item in field.split(","):
            try:
                items.append(_resolve(kind, item, name) if item.startswith("h") else item)
            except _Refusal as refusal:
                faults.append(CronFault(kind.name, refusal.reason, refusal.hint))
                items.append(str(kind.least))
        resolved.append(",".join(items))
    return tuple(resolved), tuple(dict.fromkeys(faults))


def _resolve(kind: FieldKind, item: str, name: str | None) -> str:
    match = _HASHED_ITEM.fullmatch(item)
    if match is None:
        raise _Refusal(f'"{shown(item)}" is not understood', "write H, H(a-b), H/n or H(a-b)/n")
    start, stop, step_text = match.groups()
    first, last = kind.least, LAST_HASHED_DAY if kind is MONTH_DAY else kind.last
    if start is not None:
        first, last = _range(kind, item, start, stop)
    width = last - first + 1
    step = width if step_text is None else _step(item, step_text)
    if step > width:
        raise _Refusal(f'the step in "{shown(item)}" is larger than its range, {first}-{last}')
    if name is None:
        number = "stands for a number that is made of the schedule's name"
        raise _Refusal(f'"{shown(item)}" {number}, and there is none')
    text = f"{kind.position} {name}".encode(errors="surrogatepass")
    begin = first + int.from_bytes(blake2b(text, digest_size=8).digest()) % step
    return f"{begin}-{last}/{step}" if begin + step <= last else str(begin)
