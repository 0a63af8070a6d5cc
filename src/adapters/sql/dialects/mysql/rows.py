"""Many rows in one statement: what all agree in is said once, the rest is one JSON parameter.

MySQL and MariaDB read it with JSON_TABLE: 1,000 rows in a few milliseconds, over any distance. A
column of it costs the server more than all else that it does with a row, and most of them are the
same in all rows of a batch.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Self, cast

import attrs
import msgspec
from sqlalchemy import Update, literal_column, text
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import DateTime, Float, Integer, NullType, TypeDecorator, TypeEngine

from ...types import to_text

#: So much goes into one statement, to stay below the smallest `max_allowed_packet` in use (16 MB)
#: even if the driver has to escape every letter.
LARGEST_DOCUMENT: Final = 4 * 1024 * 1024

#: The name under which a statement has the rows, and the parameter that they come in.
FRESH: Final = "fresh"
ROWS: Final = "rows"
_ROWS: Final = f"%({ROWS})s"

#: Columns in their order, each with its type.
Columns = Mapping[str, TypeEngine[Any]]


@attrs.frozen(kw_only=True)
class Rows:
    """Rows as parameters. *agreed* are the values of columns that are equal in all of them.

    *differences* are each row's values of the other columns.
    """

    agreed: Mapping[str, Any]
    differing: tuple[str, ...]
    differences: Sequence[tuple[Any, ...]]

    @classmethod
    def of(cls, names: Iterable[str], rows: Sequence[Sequence[Any]]) -> Self:
        """Take rows apart, whose values are in the order of *names*."""
        columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
        agreed = {
            name: values[0]
            for name, values in columns.items()
            if values.count(values[0]) == len(values)
        }
        differing = {
            name: map(_text, values) for name, values in columns.items() if name not in agreed
        }
        return cls(
            agreed=agreed,
            differing=tuple(differing),
            differences=(
                list(zip(*differing.values(), strict=True)) if differing else [()] * bool(rows)
            ),
        )

    def parameters(self) -> Iterator[dict[str, Any]]:
        """Give the parameters of each statement that it takes; none for no rows."""
        if self.agreed and not self.differing:
            yield dict(self.agreed)
            return
        for document in documents(self.differences):
            yield {**self.agreed, ROWS: document}


def source_of(columns: Columns, differing: Collection[str]) -> str:
    """Write what a statement selects the *differing* columns from; its parameter is `ROWS`."""
    if not differing:
        return "DUAL"
    return f"JSON_TABLE({_ROWS}, '$[*]' COLUMNS ({_json_columns(columns, differing)})) AS {FRESH}"


def value_of(name: str, differing: Collection[str]) -> str:
    """Write the value of a column in such a statement."""
    return f"{FRESH}.`{name}`" if name in differing else f"%({name})s"


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


@lru_cache(maxsize=64)
def parameters_of(statement: Update) -> Columns:
    """Find what a statement wants to be given, and of which type."""
    types = dict(_assigned(statement))
    found: dict[str, TypeEngine[Any]] = {}

    def note(parameter: BindParameter[Any]) -> None:
        if parameter.required:
            known = types.get(parameter.key, parameter.type)
            found[parameter.key] = known if isinstance(parameter.type, NullType) else parameter.type

    visitors.traverse(statement, {}, {"bindparam": note})
    return dict(sorted(found.items()))


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

    def replace(element: Any, **_: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's own signature
        if isinstance(element, BindParameter) and element.key in given:
            return literal_column(f"{FRESH}.{given[element.key]}", types[element.key])
        return None

    written = cast(Update, visitors.replacement_traverse(statement, {}, replace))
    return written.prefix_with(rows).with_hint("FORCE INDEX (PRIMARY)")


def _json_columns(columns: Columns, differing: Iterable[str]) -> str:
    """Write the COLUMNS clause of a JSON_TABLE over rows that are arrays in this order."""
    return ", ".join(
        f"`{name}` {_type(columns[name])} PATH '$[{place}]'" for place, name in enumerate(differing)
    )


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


def _text(value: object) -> object:
    return to_text(value) if isinstance(value, datetime) else value


def _array(pieces: Sequence[bytes]) -> str:
    return f"[{b','.join(pieces).decode()}]"
