"""Rows of our own tables, read into structs.

Only we write them, and their constraints keep them right. A row that does not fit all the same is
a `BrokenRow`: it is told, and the others of its batch go on.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache, wraps
from sys import getsizeof
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import Meta
from sqlalchemy import Column, Double, Integer, String, Table

from cronhare.application.logs import say
from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.texts.echo import echo, shown

from ..schema.tables import attempts, outputs, replays, topic_tallies
from ..schema.types import Flag, UtcDateTime

log = logging.getLogger(__name__)

_PLACE: Final = re.compile(r"(.*?) - at `\$\[(\d+)\].*`", re.DOTALL)


class BrokenRow(Exception):
    """A row that does not fit: its table, its key, and which column holds what it may not."""

    def __init__(self, table: "OwnTable", row: Any, why: str) -> None:  # noqa: ANN401 - a row
        """*why* begins with the column."""
        self.row = row
        self.why = f"{table.name}: {why}"
        key = " ".join(shown(str(getattr(row, name, "?"))) for name in table.keys)
        super().__init__(f"{table.name} {key}: {why}")

    def tell(self) -> None:
        """Log it."""
        say(log, logging.ERROR, "ledger.broken-row", f"A row cannot be read: {self}")


class OwnTable:
    """What the rows of one table may hold, or some of their columns."""

    def __init__(self, table: Table, **special: Any) -> None:  # noqa: ANN401 - types
        """Take the types of the columns, but for *special* ones, which may be of none of them."""
        self.table = table
        self.name = table.name
        self.keys = [column.name for column in table.primary_key]
        self._types = {str(column.name): _type_of(column) for column in table.c} | special
        self._struct = lru_cache(maxsize=64)(self._make_struct)

    def read(self, row: Any) -> Any:  # noqa: ANN401 - a struct with a row's columns
        """Read one row.

        Raises:
            BrokenRow: it does not fit.
        """
        [read] = self.each([row])
        if isinstance(read, BrokenRow):
            raise read
        return read

    def each(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Give a struct for each row that a statement found, or the `BrokenRow` that it is."""
        struct: Any = None
        for row in rows:
            if struct is None:
                struct = self._struct(row._fields)
            try:
                yield msgspec.convert(tuple(row), struct)
            except msgspec.ValidationError as error:
                yield self._broken(row, str(error))

    def readable(self, rows: Iterable[Any]) -> list[Any]:
        """Read the rows that fit, and log the others."""
        read = list(self.each(rows))
        for each in read:
            if isinstance(each, BrokenRow):
                each.tell()
        return [each for each in read if not isinstance(each, BrokenRow)]

    def fitting(self, row: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
        """Give the cells of a row that fit by themselves."""
        for name, value in zip(row._fields, row, strict=True):
            try:
                yield name, msgspec.convert(value, self._types[name])
            except msgspec.ValidationError:
                continue

    def _make_struct(self, names: tuple[str, ...]) -> type[msgspec.Struct]:
        fields = [(str(name), self._types[name]) for name in names]
        return msgspec.defstruct(self.name, fields, array_like=True, frozen=True, gc=False)

    def _broken(self, row: Any, said: str) -> BrokenRow:  # noqa: ANN401
        found = _PLACE.fullmatch(said)
        if found is None:
            return BrokenRow(self, row, said)
        place = int(found[2])
        return BrokenRow(self, row, f"{row._fields[place]}: {echo(row[place])}: {found[1]}")


def whole(least: int, most: int) -> Any:  # noqa: ANN401 - a type
    """Give the type of a whole number within bounds."""
    return Annotated[int, Meta(ge=least, le=most)]


def text(longest: int) -> Any:  # noqa: ANN401
    """Give the type of a text of at most so many letters."""
    return Annotated[str, Meta(max_length=longest)]


def _type_of(column: Column[Any]) -> Any:  # noqa: ANN401
    kind: Any = str
    match column.type:
        case UtcDateTime():
            kind = Annotated[datetime, Meta(tz=True)]
        case Flag():
            kind = whole(0, 1)
        case Integer():
            kind = int
        case Double():
            kind = float
        case String(length=length) if length:
            kind = text(length)
    return cast(Any, kind | None) if column.nullable else kind


ATTEMPT: Final = OwnTable(attempts)
OUTPUT: Final = OwnTable(outputs)
REPLAY: Final = OwnTable(replays, state=ReplayState)
TALLY: Final = OwnTable(topic_tallies)


T = TypeVar("T")

#: A cache keeps so many answers, and none to a question of more bytes.
_MOST_CACHED: Final = 4_096
_LARGEST_CACHED: Final = 2_048


def cached(call: Callable[[Any], T]) -> Callable[[Any], T]:
    """Cache answers to small questions: texts, or tuples of columns."""
    known: dict[Any, T] = {}

    @wraps(call)
    def ask(question: Any) -> T:  # noqa: ANN401 - whatever a column may hold
        try:
            return known[question]
        except KeyError:
            answer = call(question)
        parts = question if isinstance(question, tuple) else (question,)
        if sum(map(getsizeof, parts)) <= _LARGEST_CACHED:
            if len(known) >= _MOST_CACHED:
                known.clear()
            known[question] = answer
        return answer

    return ask
