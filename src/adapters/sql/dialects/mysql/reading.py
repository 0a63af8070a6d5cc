"""Many wide rows, read fast: each comes as one JSON text.

PyMySQL takes the fields of a row apart one by one, in Python: 27 of them take 17 µs, one that
msgspec takes apart 3.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Select, func
from sqlalchemy.types import NullType, String

from ...schema import types
from ...schema.named_rows import MakeRow, row_maker
from ...schema.types import UtcDateTime

#: Reads a JSON text as a list; asked for anew each time, msgspec takes four times as long.
as_list: Final = msgspec.json.Decoder(list[Any]).decode


@attrs.frozen
class Packed:
    """A SELECT of rows as JSON, and how they are read. Rows are named tuples."""

    statement: Select[Any]
    row: MakeRow
    moments: tuple[int, ...]


def read_rows(
    connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
) -> Sequence[Row[Any]]:
    """Execute a SELECT, and give its rows."""
    packed = _packed(statement)
    texts = connection.scalars(packed.statement, parameters).all()
    try:
        return list(_unpacked(packed, texts))
    except (msgspec.DecodeError, msgspec.ValidationError):
        # A row of 16 MB, whose JSON the server gave up. It is refused later, by its name.
        return connection.execute(statement, parameters).all()


@lru_cache(maxsize=1024)
def read_moment(said: str) -> datetime | str:
    """Read a moment, in a column for moments or for text; a zero date is none, and stays as it is.

    The driver's own reading takes ten times as long, and a busy minute has few different moments.
    """
    try:
        return datetime.fromisoformat(f"{said}+00:00")
    except ValueError:
        return types.read_moment(said) or said


@lru_cache(maxsize=16)
def _packed(statement: Select[Any]) -> Packed:
    columns = list(statement.selected_columns)
    array = func.JSON_ARRAY(*map(_as_json, columns))
    return Packed(
        statement=statement.with_only_columns(array, maintain_column_froms=True),
        row=row_maker(tuple(column.key or "" for column in columns)),
        moments=tuple(
            place for place, column in enumerate(columns) if isinstance(column.type, UtcDateTime)
        ),
    )


def _as_json(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Have text quoted, whatever it holds: JSON text would become a part of the array."""
    if isinstance(column.type, String | NullType):
        return func.CONCAT(column, "")  # anything but a column is never taken for JSON
    return column


def _unpacked(packed: Packed, texts: Iterable[Any]) -> Iterator[Row[Any]]:
    for said in texts:
        values = as_list(said or "")
        for place in packed.moments:
            if values[place] is not None:
                values[place] = read_moment(values[place])
        yield packed.row(values)
