"""A cron text, read: five fields or an alias, each field a mask and day words, or its faults.

Every fault is reported at once, each with its place and a way out. Start reading at `split_fields`
and `read_field`. `H` becomes a number that the schedule's name fixes, as in Jenkins, before the
fields are read.
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
from .calendar import Extension, LastDay, LastWeekDay, LastWorkingDay, NearestWorkingDay, NthWeekDay


@attrs.frozen(kw_only=True)
class CronFault:
    """One fault of a cron text.

    *field* is "minute", "hour", "day of month", "month", "week day", or "expression" where the
    fault is not in a single field. *item* is the piece of input, shortened; *allowed* says what
    could stand there, *hint* what to write instead (empty where nothing better can be said).
    """

    field: str
    item: str
    reason: str
    allowed: str
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


def _named(names: str, start: int) -> Mapping[str, int]:
    return MappingProxyType({name: start + index for index, name in enumerate(names.split())})


@attrs.frozen(kw_only=True, eq=False)
class FieldKind:
    """One of the five places.

    Numbers go from *least* to *most*; the field has *size* values, since in the week day 0 and 7
    are both Sunday. *position* is the place in the text, from 0.
    """

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
        """The mask of all values."""
        return (1 << self.size) - 1

    @property
    def allowed(self) -> str:
        """The values as a person would write them, such as `1-12 or JAN-DEC`."""
        names = [name.upper() for name in self.names]
        return f"{self.least}-{self.most}" + (f" or {names[0]}-{names[-1]}" if names else "")

    def bit(self, value: int) -> int:
        """The mask of one value; bit 0 is the least.

        >>> WEEK_DAY.bit(7), MONTH.bit(2)
        (1, 2)
        """
        return 1 << (value - self.least) % self.size


MINUTE: Final = FieldKind(name="minute", position=0, least=0, most=59, size=60)
HOUR: Final = FieldKind(name="hour", position=1, least=0, most=23, size=24)
MONTH_DAY: Final = FieldKind(name="day of month", position=2, least=1, most=31, size=31)
MONTH: Final = FieldKind(
    name="month",
    position=3,
    least=1,
    most=12,
    size=12,
    names=_named("jan feb mar apr may jun jul aug sep oct nov dec", 1),
)
WEEK_DAY: Final = FieldKind(
    name="week day",
    position=4,
    least=0,
    most=7,
    size=7,
    names=_named("sun mon tue wed thu fri sat", 0),
)
KINDS: Final = (MINUTE, HOUR, MONTH_DAY, MONTH, WEEK_DAY)


class Refusal(Exception):
    """An item is not accepted. Never leaves this package."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def unreadable(kind: FieldKind, item: str) -> Refusal:
    """Say why an item that is neither number, range, step nor day word is refused."""
    quoted = f'"{shown(item)}"'
    for pattern, reason, hint in _KNOWN:
        if re.fullmatch(pattern, item):
            return Refusal(reason.format(quoted), hint)
    if "?" in item:
        return _question_mark(kind, quoted)
    if re.fullmatch(r"[0-9a-z]+w|l|lw|l-.*", item):
        return _month_day_word(kind, item, quoted)
    if re.fullmatch(r".*#.*|[0-9a-z]+l|l[0-7]", item):
        return _week_day_word(kind, item, quoted)
    if re.fullmatch(r"[a-z]+", item):
        return unknown_name(kind, item)
    return Refusal(f"{quoted} is not understood", "write *, a, a-b, */s, a/s or a-b/s")


def unknown_name(kind: FieldKind, name: str) -> Refusal:
    """Refuse a word where a value should stand."""
    if not kind.names:
        return Refusal(f'"{shown(name)}" is not a number')
    close = get_close_matches(name[:9], kind.names, n=1)
    hint = f"did you mean {close[0].upper()}?" if close else ""
    return Refusal(f'"{shown(name)}" is not a {kind.name}', hint)


_KNOWN = (
    (r"", "an item of the list is empty", "remove the extra comma"),
    (
        r"r(\(.*\))?(/.*)?",
        "{} (a random value) is not supported, it would differ from node to node",
        "write H, a number that is made of the schedule's name",
    ),
    (r".*~.*", "{} (a random value) is not supported", "write a number or a range, or H(a-b)"),
    (r"-\d+", "{} is negative", ""),
    (r"[^/]*/", "{} lacks the step after the slash", ""),
    (r"/.*", "{} lacks what the step applies to", "write */s"),
)


def _question_mark(kind: FieldKind, quoted: str) -> Refusal:
    if kind in {MONTH_DAY, WEEK_DAY}:
        return Refusal(f"{quoted}: ? can only stand alone", "write * if there is more in the field")
    return Refusal(f"{quoted}: ? belongs to the two day fields", "write *")


def _month_day_word(kind: FieldKind, item: str, quoted: str) -> Refusal:
    if kind is WEEK_DAY and item == "l":
        return Refusal(f"{quoted} needs a week day", "write 5L for the last Friday, 6 for Saturday")
    if kind is not MONTH_DAY:
        return Refusal(f"{quoted} belongs to the day of month")
    if item.startswith("l-"):
        return Refusal(f"{quoted} (days before the last) is not supported")
    return Refusal(f"{quoted} is not a day of month", "write 1W to 31W, or LW")


def _week_day_word(kind: FieldKind, item: str, quoted: str) -> Refusal:
    if kind is not WEEK_DAY:
        return Refusal(f"{quoted} belongs to the week day")
    if "#" in item:
        return Refusal(
            f"{quoted} is not a week day of the month", "write d#k, such as FRI#2; k is 1-5"
        )
    hint = f"write {item[1]}L" if item[0] == "l" else "write dL, such as 5L or FRIL"
    return Refusal(f"{quoted} is not a last week day", hint)


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


@attrs.frozen(kw_only=True, eq=False)
class Field:
    """A field, read. Bit 0 of *mask* is the least value of its kind; *words* are day words.

    *plain* is true for `*` and `?`, the only texts that restrict nothing; *starred* for a text
    that begins with a star. *notes* are warnings. If there are *faults*, the rest means nothing.
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


@lru_cache(maxsize=8192)
def read_field(kind: FieldKind, text: str) -> Field:
    """Read a field, in lower case. It never raises: what is wrong is in `faults`."""
    mask = 0
    words: list[Extension] = []
    notes: list[str] = []
    faults: list[CronFault] = []
    for item in _items(kind, text):
        try:
            if word := read_word(kind, item):
                words.append(word)
                continue
            bits, note = read_numbers(kind, item)
        except Refusal as refusal:
            faults.append(fault_of(kind, item, refusal))
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


def _items(kind: FieldKind, text: str) -> list[str]:
    if text == "?" and kind in {MONTH_DAY, WEEK_DAY}:
        return ["*"]
    return text.split(",")


def fault_of(kind: FieldKind, item: str, refusal: Refusal) -> CronFault:
    """Make a fault of a refused item."""
    return CronFault(
        field=kind.name,
        item=shown(item),
        reason=refusal.reason,
        allowed=kind.allowed,
        hint=refusal.hint,
    )


_HASHED_ITEM: Final = re.compile(r"h(?:\(([0-9a-z]+)-([0-9a-z]+)\))?(?:/([0-9]+))?")

#: An item that is hashed: no name of a month or a day begins so.
_HASHED: Final = re.compile(r"(?:^|[\s,])h", re.IGNORECASE)

#: The last day of a month that `H` takes: one that each month has.
LAST_HASHED_DAY: Final = 28


@attrs.frozen
class Resolved:
    """Fields in which numbers stand for each H; with *faults* the rest means nothing."""

    fields: tuple[str, ...]
    faults: tuple[CronFault, ...]


def names_matter(text: str) -> bool:
    """Tell whether a cron text may mean something else for each name, without reading it.

    >>> names_matter("H 3 * * *"), names_matter("0 3 * * THU"), names_matter("@hourly")
    (True, False, False)
    """
    # The letter alone says no for nearly all, in a tenth of the time.
    return ("h" in text or "H" in text) and _HASHED.search(text) is not None


def resolve(fields: Sequence[str], name: str | None) -> Resolved:
    """Put the numbers of the schedule called *name* for each H; without a name, faults.

    >>> resolve(["h", "h(8-17)", "*", "*", "h/2"], "nightly").fields
    ('21', '14', '*', '*', '0-6/2')
    """
    faults: list[CronFault] = []
    resolved: list[str] = []
    for kind, field in zip(KINDS, fields, strict=True):
        items: list[str] = []
        for item in field.split(","):
            try:
                items.append(_resolve(kind, item, name) if item.startswith("h") else item)
            except Refusal as refusal:
                faults.append(fault_of(kind, item, refusal))
                items.append(str(kind.least))
        resolved.append(",".join(items))
    return Resolved(tuple(resolved), tuple(dict.fromkeys(faults)))


def _resolve(kind: FieldKind, item: str, name: str | None) -> str:
    match = _HASHED_ITEM.fullmatch(item)
    if match is None:
        raise Refusal(f'"{shown(item)}" is not understood', "write H, H(a-b), H/n or H(a-b)/n")
    first, last = _hashed_bounds(kind, item, match[1], match[2])
    width = last - first + 1
    step = None if match[3] is None else int(match[3])
    if step == 0:
        raise Refusal(f'the step in "{shown(item)}" is 0', "the least step is 1")
    if step is not None and step > width:
        raise Refusal(f'the step in "{shown(item)}" is larger than its range, {first}-{last}')
    if name is None:
        raise Refusal(
            f'"{shown(item)}" stands for a number that is made of the schedule\'s name, and there '
            "is none"
        )
    if step is None:
        return str(first + _number(name, kind) % width)
    begin = first + _number(name, kind) % step
    return f"{begin}-{last}/{step}" if begin + step <= last else str(begin)


def _hashed_bounds(
    kind: FieldKind, item: str, start: str | None, stop: str | None
) -> tuple[int, int]:
    if start is None or stop is None:
        return kind.least, LAST_HASHED_DAY if kind is MONTH_DAY else kind.last
    return range_of(kind, item, start, stop)


def _number(name: str, kind: FieldKind) -> int:
    """Make a number of a name: another one for each field, the same on each replica for ever."""
    text = f"{kind.position} {name}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest())


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
_FORM: Final = "minute hour day-of-month month week-day, or one of " + " ".join(ALIASES)


def split_fields(text: str) -> list[str]:
    """Split a text into its five fields, in lower case.

    >>> split_fields("  0 8 * * MON-FRI ")
    ['0', '8', '*', '*', 'mon-fri']
    >>> split_fields("@Daily")
    ['0', '0', '*', '*', '*']

    Raises:
        CronExpressionError: the text as a whole is not what we read.
    """
    if len(text) > LONGEST_TEXT:
        raise _refused(text, f"the text has {len(text)} characters, {LONGEST_TEXT} are allowed")
    spaced = text.replace("\t", " ")
    if not spaced.isascii():
        raise _refused(
            text, "only ASCII characters are allowed", "look for pasted dashes or blanks"
        )
    if not spaced.isprintable():
        raise _refused(text, "line breaks and control characters are not allowed")
    fields = spaced.lower().split()
    if not fields:
        raise _refused(text, "the text is empty", "write * * * * * for every minute")
    if fields[0].startswith("@"):
        return _alias(text, fields)
    if fields[0].startswith(("tz=", "cron_tz=")):
        raise _refused(
            text, "a zone inside the text is not supported", "set the schedule's timezone instead"
        )
    if len(fields) != FIELDS:
        raise _wrong_count(text, len(fields))
    return fields


def _alias(text: str, words: list[str]) -> list[str]:
    alias = words[0]
    if alias == "@reboot":
        raise _refused(
            text, "@reboot is not a time", "write on_boot = true in the jobs file instead"
        )
    if alias == "@every":
        raise _refused(text, "@every is no cron text", 'give the schedule every = "5m" instead')
    if alias not in ALIASES:
        close = get_close_matches(alias[:16], ALIASES, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise _refused(text, f'the alias "{shown(alias)}" is unknown', hint)
    if len(words) > 1:
        raise _refused(text, f"nothing may follow {alias}")
    return ALIASES[alias].split()


def _wrong_count(text: str, count: int) -> CronExpressionError:
    if count == FIELDS + 1:
        return _refused(
            text,
            "five fields expected, seconds are not supported",
            'remove the sixth field, or give the schedule every = "30s" instead',
        )
    return _refused(text, f"five fields expected, found {count}")


def _refused(text: str, reason: str, hint: str = "") -> CronExpressionError:
    return CronExpressionError(
        CronFault(field="expression", item=shown(text), reason=reason, allowed=_FORM, hint=hint)
    )
