"""Many rows in one statement: what all agree in is said once, the rest is one JSON parameter.

MySQL and MariaDB read it with JSON_TABLE: 1,000 rows in a few milliseconds, over any distance. A
column of it costs the server more than all else that it does with a row, and most of them are the
same in all rows of a batch.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Update, literal_column, text
from sqlalchemy.types import DateTime, Float, Integer, TypeDecorator, TypeEngine

from ...schema.tables import FOUND_BY_KEY
from .. import batches
from ..batches import ColumnTypes, parameters_of, with_columns

T = TypeVar("T")

#: So much goes into one statement, to stay below the smallest `max_allowed_packet` in use (16 MB)
#: even if the driver has to escape every letter.
LARGEST_DOCUMENT: Final = 4 * 1024 * 1024

#: The name under which a statement has the rows, and the parameter that they come in.
FRESH: Final = "fresh"
ROWS: Final = "rows"
_ROWS: Final = f"%({ROWS})s"


class Rows(batches.Rows):
    """Rows as parameters of MySQL's."""

    def parameters(self) -> Iterator[dict[str, Any]]:
        """Give the parameters of each statement that it takes; none for no rows."""
        if self.agreed and not self.differing:
            yield dict(self.agreed)
            return
        for document in documents(self.differences):
            yield {**self.agreed, ROWS: document}


def source_of(columns: ColumnTypes, differing: Collection[str]) -> str:
    """Write what a statement selects the *differing* columns from; its parameter is `ROWS`."""
    if not differing:
        return "DUAL"
    return f"JSON_TABLE({_ROWS}, '$[*]' COLUMNS ({_json_columns(columns, differing)})) AS {FRESH}"


def value_of(name: str, differing: Collection[str]) -> str:
    """Write the value of a column in such a statement."""
    return f"{FRESH}.`{name}`" if name in differing else f"%({name})s"


def documents(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Write rows as JSON arrays, in as few documents as their size allows."""
    written = map(msgspec.json.encode, rows)
    for part in parts_of((piece, len(piece) + 1) for piece in written):
        yield f"[{b','.join(part).decode()}]"


def parts_of(sized: Iterable[tuple[T, int]]) -> Iterator[Sequence[T]]:
    """Divide what has a size in bytes, so that no part is much larger than the largest document."""
    part: list[T] = []
    size = 0
    for item, more in sized:
        if part and size + more > LARGEST_DOCUMENT:
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


@lru_cache(maxsize=256)
def update_from_rows(statement: Update, differing: tuple[str, ...]) -> Update:
    """Turn an UPDATE of one row into one of many, joined with the rows of a JSON parameter.

    Those of its parameters that are *differing* become columns of that table. It is read first,
    and each row is then found by its key: of a small table the server would rather read all rows,
    and wait for those that others hold.
    """
    if not differing:
        return statement
    types = parameters_of(statement)
    given = {name: f"given_{name}" for name in differing}
    columns = {given[name]: types[name] for name in differing}
    rows = text(f"{source_of(columns, tuple(columns))} STRAIGHT_JOIN".replace(_ROWS, f":{ROWS}"))
    written = with_columns(
        statement,
        {name: literal_column(f"{FRESH}.{given[name]}", types[name]) for name in differing},
    )
    return written.prefix_with(rows).with_hint(FOUND_BY_KEY)


def _json_columns(columns: ColumnTypes, differing: Iterable[str]) -> str:
    """Write the COLUMNS clause of a JSON_TABLE over rows that are arrays in this order."""
    return ", ".join(
        f"`{name}` {_type(columns[name])} PATH '$[{place}]'" for place, name in enumerate(differing)
    )


def _type(kind: TypeEngine[Any]) -> str:
    if isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    match kind:
        case DateTime():
            return "DATETIME(6)"
        case Integer():  # Boolean is none: nothing of ours sets one for many rows
            return "BIGINT"
        case Float():
            return "DOUBLE"
    return "LONGTEXT CHARACTER SET utf8mb4"  # or letters that the database's own lacks become ?
