"""Many rows in one statement: a parameter for each column in which they differ, an array.

UNNEST makes rows of them.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import BigInteger, Double, Update, bindparam, column, func
from sqlalchemy import cast as as_type
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, TEXT, TIMESTAMP
from sqlalchemy.types import DateTime, Float, Integer, TypeDecorator, TypeEngine

from ..batches import ColumnTypes, Rows, parameters_of, with_columns

#: The name under which a statement has the rows, and that of their number.
FRESH: Final = "fresh"
PLACE: Final = "place"

_DIALECT: Final = postgresql.dialect()  # type: ignore[no-untyped-call]


def parameters(rows: Rows) -> dict[str, Any]:
    """Give the parameters of a statement: values that all agree in, and arrays of the others."""
    arrays = zip(*rows.differences, strict=True) if rows.differing else ()
    return {**rows.agreed, **dict(zip(rows.differing, map(list, arrays), strict=True))}


def source_of(columns: ColumnTypes, differing: Sequence[str]) -> str:
    """Write what a statement selects the *differing* columns from, in their order."""
    if not differing:
        return ""
    arrays = ", ".join(f"%({name})s::{_name(columns[name])}[]" for name in differing)
    names = ", ".join((*differing, PLACE))
    return f"FROM unnest({arrays}) WITH ORDINALITY AS {FRESH} ({names}) ORDER BY {PLACE}"


def value_of(name: str, columns: ColumnTypes, differing: Collection[str]) -> str:
    """Write the value of a column in such a statement."""
    return f"{FRESH}.{name}" if name in differing else f"%({name})s::{_name(columns[name])}"


@lru_cache(maxsize=256)
def update_from_rows(statement: Update, differing: tuple[str, ...]) -> Update:
    """Turn an UPDATE of one row into one of many, joined with the rows of arrays.

    Those of its parameters that are *differing* become columns of these rows.
    """
    if not differing:
        return statement
    types = parameters_of(statement)
    arrays = [as_type(bindparam(name), ARRAY(_type(types[name]))) for name in differing]
    columns = [column(f"given_{name}", _type(types[name])) for name in differing]
    fresh = func.unnest(*arrays).table_valued(*columns, name=FRESH).render_derived()
    return with_columns(statement, {name: fresh.c[f"given_{name}"] for name in differing})


def _name(kind: TypeEngine[Any]) -> str:
    return _type(kind).compile(dialect=_DIALECT)


def _type(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    if isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    match kind:
        case DateTime():
            return TIMESTAMP(timezone=True)
        case Integer():  # Boolean is none: nothing of ours sets one for many rows
            return BigInteger()
        case Float():
            return Double()
    return TEXT()
