"""Many rows as one JSON parameter, which MySQL and MariaDB read with JSON_TABLE.

One statement instead of one per row: 1,000 rows in a few milliseconds, over any distance.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from sqlalchemy import Update, column, func, text
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import DateTime, Float, Integer, NullType, TypeDecorator, TypeEngine

from .types import to_text

#: So much goes into one statement, to stay below the smallest `max_allowed_packet` in use (16 MB)
#: even if the driver has to escape every letter.
LARGEST_DOCUMENT: Final = 4 * 1024 * 1024

#: The name under which a statement has the rows, and the parameter that they come in.
FRESH: Final = "fresh"
ROWS: Final = "rows"


def json_columns(columns: Iterable[tuple[str, TypeEngine[Any]]]) -> str:
    """Write the COLUMNS clause of a JSON_TABLE over rows that are arrays in this order."""
    return ", ".join(
        f"`{name}` {_type(kind)} PATH '$[{place}]'" for place, (name, kind) in enumerate(columns)
    )


def documents(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Write rows as JSON arrays, in as few documents as their size allows."""
    pieces: list[bytes] = []
    size = 0
    for row in rows:
        piece = msgspec.json.encode(row)
        if pieces and size + len(piece) > LARGEST_DOCUMENT:
            yield _array(pieces)
            pieces, size = [], 0
        pieces.append(piece)
        size += len(piece) + 1
    if pieces:
        yield _array(pieces)


def arrays(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Put the parameters of an UPDATE into the order of its `parameters_of`."""
    for row in rows:
        yield [_value(row[name]) for name in names]


@lru_cache(maxsize=64)
def update_from_rows(statement: Update) -> tuple[Update, tuple[str, ...]]:
    """Turn an UPDATE of one row into one of many, joined with the rows of a JSON parameter.

    Its parameters become columns of that table. Answers their names, in the order of a row.
    """
    parameters = _parameters(statement)
    names = tuple(parameters)
    rows: Any = text(f":{ROWS}, '$[*]' COLUMNS ({json_columns(parameters.items())})")
    fresh = func.JSON_TABLE(rows).table_valued(
        *(column(name, kind) for name, kind in parameters.items()), name=FRESH
    )

    def replace(element: Any, **_: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's own signature
        is_parameter = isinstance(element, BindParameter) and element.key in parameters
        return fresh.c[element.key] if is_parameter else None

    joined: Any = visitors.replacement_traverse(statement, {}, replace)
    return joined, names


def _parameters(statement: Update) -> dict[str, TypeEngine[Any]]:
    """Find what a statement wants to be given, and of which type."""
    types = dict(_assigned(statement))
    found: dict[str, TypeEngine[Any]] = {}

    def note(parameter: BindParameter[Any]) -> None:
        if parameter.required:
            known = types.get(parameter.key, parameter.type)
            found[parameter.key] = known if isinstance(parameter.type, NullType) else parameter.type

    visitors.traverse(statement, {}, {"bindparam": note})
    return dict(sorted(found.items()))


def _assigned(statement: Update) -> Iterator[tuple[str, TypeEngine[Any]]]:
    """Pair parameters with the types of the columns that they are the values of."""
    values: Mapping[Any, Any] = statement._values or {}  # noqa: SLF001 - nothing public tells it
    columns = statement.table.c
    for name, value in values.items():
        if isinstance(value, BindParameter):
            yield value.key, (columns[name] if isinstance(name, str) else name).type


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


def _value(value: object) -> object:
    return to_text(value) if isinstance(value, datetime) else value


def _array(pieces: Sequence[bytes]) -> str:
    return f"[{b','.join(pieces).decode()}]"
