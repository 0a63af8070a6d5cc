"""Reading rows of our own tables, whatever people wrote into them.

SQLite's columns take values of any type, MySQL's any number and any date. An impossible value is
replaced, and named in the row's *problem*: reading a row never raises.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, Protocol

import attrs
from sqlalchemy import Column, Double, Integer, String, Table

from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.messages.nack_count import MOST
from cronhare.domain.schedules.calendars import LONGEST_LABEL
from cronhare.domain.schedules.pause import LONGEST_AUTHOR, LONGEST_REASON
from cronhare.domain.schedules.windows import LONGEST_WINDOW
from cronhare.domain.task_report import LARGEST_RESULT
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.names import LONGEST_NAME
from cronhare.domain.topology import LONGEST_QUEUE_NAME, MOST_QUEUES

from ..schema.tables import (
    attempts,
    calendar_windows,
    calendars,
    nodes,
    outputs,
    pauses,
    topic_tallies,
)
from ..schema.types import UtcDateTime
from .schedule_columns import LONG_AGO


class RowLike(Protocol):
    """A row of the driver's, or of `Dialect.read`: a tuple whose fields have names."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __getitem__(self, place: int, /) -> Any: ...  # noqa: ANN401


@attrs.frozen(kw_only=True)
class ColumnRule:
    """What a column may hold, and what replaces anything else."""

    kind: type | tuple[type, ...]
    wanted: str
    stand_in: object
    nullable: bool = False
    allowed: range | None = None
    longest: int | None = None

    def takes(self, kind: type) -> bool:
        """Tell whether a value's type is right; a flag is a whole number in databases."""
        return issubclass(kind, self.kind) or (self.nullable and kind is type(None))


def whole(allowed: range, *, nullable: bool = False) -> ColumnRule:
    """Expect a whole number."""
    wanted = f"a whole number, {allowed[0]}-{allowed[-1]}"
    stand_in = None if nullable else max(allowed[0], 0)
    return ColumnRule(
        kind=int, wanted=wanted, stand_in=stand_in, nullable=nullable, allowed=allowed
    )


def text(longest: int | None = None, *, nullable: bool = False, stand_in: str = "") -> ColumnRule:
    """Expect text of at most so many letters."""
    wanted = "text" if longest is None else f"text of at most {longest:,} letters"
    default = None if nullable else stand_in
    return ColumnRule(kind=str, wanted=wanted, stand_in=default, nullable=nullable, longest=longest)


def moment(*, nullable: bool = True) -> ColumnRule:
    """Expect a time."""
    stand_in = None if nullable else LONG_AGO
    return ColumnRule(kind=datetime, wanted="a time", stand_in=stand_in, nullable=nullable)


def number() -> ColumnRule:
    """Expect a number, or nothing."""
    return ColumnRule(kind=(float, int), wanted="a number", stand_in=None, nullable=True)


#: Numbers that a signed column of 32 bits holds together with their successor.
COUNTS: Final = range(MOST + 1)

#: Those of a column that grows with every change, with room for one more.
VERSIONS: Final = range(-(2**31), 2**31 - 1)


_ANY: Final = range(-LARGEST_ID - 1, LARGEST_ID + 1)
_SIZES: Final = range(LARGEST_ID + 1)


def _rule_of(column: Column[Any]) -> ColumnRule:
    nullable = bool(column.nullable)
    match column.type:
        case Integer():
            return whole(_ANY, nullable=nullable)
        case UtcDateTime():
            return moment(nullable=nullable)
        case Double():
            return number()
    return text(nullable=nullable)


#: By its place, the least and the greatest of each number, and the length of each text.
Limits = tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]


class TableReader:
    """Reads rows of one table, or some of its columns."""

    def __init__(self, table: Table, **special: ColumnRule) -> None:
        """Take the rules from the types of the columns, but for *special* ones."""
        self._table = table.name
        self._rules = {column.name: _rule_of(column) for column in table.c} | special
        self._limits_of = lru_cache(maxsize=256)(self._judge_types)

    def read(self, row: Any) -> tuple[Any, str | None]:  # noqa: ANN401 - see RowLike
        """Give a row whose values can be relied on, by name, and what was wrong with it."""
        return (row, None) if self._is_sound(row, row._fields) else self._mend(row)

    def fields(self, row: Any) -> dict[str, Any]:  # noqa: ANN401 - see RowLike
        """Give the values by name, and what was wrong with them as `problem`."""
        sound, problem = self.read(row)
        return {**{name: getattr(sound, name) for name in row._fields}, "problem": problem}

    def _is_sound(self, values: Sequence[Any], names: tuple[str, ...]) -> bool:
        limits = self._limits_of(tuple(map(type, values)), names)
        if limits is None:
            return False
        numbers, texts = limits
        for place, least, most in numbers:
            if not least <= values[place] <= most:
                return False
        for place, longest in texts:  # noqa: SIM110 - of each row that is read
            if len(values[place]) > longest:
                return False
        return True

    def _judge_types(self, kinds: tuple[type, ...], names: tuple[str, ...]) -> Limits | None:
        """Give the bounds of what rows of these types hold; None if a type is wrong."""
        known = [(place, self._rules[name]) for place, name in enumerate(names)]
        if not all(rule.takes(kinds[place]) for place, rule in known):
            return None
        filled = [(place, rule) for place, rule in known if kinds[place] is not type(None)]
        return (
            tuple((n, each.allowed[0], each.allowed[-1]) for n, each in filled if each.allowed),
            tuple((n, each.longest) for n, each in filled if each.longest is not None),
        )

    def _mend(self, row: RowLike) -> tuple[Any, str]:
        mended, faults = SimpleNamespace(), []
        for name, value in zip(row._fields, row, strict=True):  # type: ignore[call-overload]
            rule, sound = self._rules[name], self._is_sound((value,), (name,))
            setattr(mended, name, value if sound else rule.stand_in)
            if not sound:
                faults.append(f"{name}: {echo(value)} is not {rule.wanted}")
        return mended, f"{self._table}: {'; '.join(faults)}"


def _lengths(table: Table) -> dict[str, ColumnRule]:
    """Give the texts the lengths of their columns, which SQLite does not keep to."""
    return {
        column.name: text(column.type.length, nullable=bool(column.nullable))
        for column in table.c
        if isinstance(column.type, String) and column.type.length
    }


#: The names of all queues of a process, with what parts them.
LONGEST_QUEUES: Final = MOST_QUEUES * (LONGEST_QUEUE_NAME + 1)

#: Beyond a hundred thousand days a clock is not off, and no duration.
_OFFSETS_MS: Final = range(-(10**13), 10**13)

#: A sentence of ours that is kept, in letters.
_LONGEST_LINE: Final = 4_096

ATTEMPT: Final = TableReader(attempts, peak_memory=whole(_SIZES, nullable=True))
OUTPUT: Final = TableReader(
    outputs,
    stdout_bytes=whole(_SIZES),
    stderr_bytes=whole(_SIZES),
    stdout_lines=whole(_SIZES, nullable=True),
    stderr_lines=whole(_SIZES, nullable=True),
    progress_text=text(_LONGEST_LINE, nullable=True),
    result=text(LARGEST_RESULT, nullable=True),
    result_problem=text(_LONGEST_LINE, nullable=True),
)
CALENDAR: Final = TableReader(calendars, **_lengths(calendars))
WINDOW: Final = TableReader(
    calendar_windows,
    calendar=text(LONGEST_NAME),
    during=text(LONGEST_WINDOW),
    label=text(LONGEST_LABEL, nullable=True),
)
TOPIC_TALLY: Final = TableReader(
    topic_tallies, **_lengths(topic_tallies), no_listener=whole(_SIZES)
)
PAUSE: Final = TableReader(
    pauses,
    paused_by=text(LONGEST_AUTHOR, nullable=True),
    reason=text(LONGEST_REASON, nullable=True),
)
NODE: Final = TableReader(
    nodes,
    **_lengths(nodes),
    queues=text(LONGEST_QUEUES),
    concurrency=whole(_SIZES, nullable=True),
    running=whole(_SIZES, nullable=True),
    consuming=whole(range(2), nullable=True),
    clock_offset_ms=whole(_OFFSETS_MS),
)
