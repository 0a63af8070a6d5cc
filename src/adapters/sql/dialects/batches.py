"""Many rows in one statement: values that all rows share are said once, the others come as rows.

A server makes rows of its parameters: 1,000 rows take a few milliseconds, over any distance. Each
column of them costs the server more than all else that it does with a row, and in a batch most
columns are the same in all rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

import attrs
from sqlalchemy import ColumnElement, Dialect, Update
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import TypeDecorator, TypeEngine

from ..tables.tables import plans
from ..tables.types import to_text

#: Columns in their order, each with its type.
ColumnTypes = Mapping[str, TypeEngine[Any]]

#: Those of a plan that a scheduler writes.
_PLAN = ("scheduler_id", "next_due_at", "planned_at", "problem", "judged_by", "resume_at", "idle")
PLAN_COLUMNS: Final[ColumnTypes] = {name: plans.c[name].type for name in _PLAN}

#: The name under which a statement has the rows.
FRESH: Final = "fresh"


@attrs.frozen(kw_only=True)
class Rows:
    """Rows as parameters: *agreed* has the values of columns that are equal in all rows.

    *differences* has each row's values of the *differing* columns.
    """

    agreed: Mapping[str, Any]
    differing: tuple[str, ...]
    differences: Sequence[tuple[Any, ...]]


def rows_of(names: Iterable[str], rows: Sequence[Sequence[Any]]) -> Rows:
    """Take rows apart whose values are in the order of *names*."""
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    agreed = {
        name: values[0]
        for name, values in columns.items()
        if values.count(values[0]) == len(values)
    }
    differing = {name: as_texts(values) for name, values in columns.items() if name not in agreed}
    return Rows(
        agreed=agreed,
        differing=tuple(differing),
        differences=list(zip(*differing.values(), strict=True)) if differing else [()] * bool(rows),
    )


def as_texts(values: Iterable[object]) -> list[object]:
    """Write moments as texts. A function for each value would take three times as long."""
    return [to_text(value) if isinstance(value, datetime) else value for value in values]


# Statements of one row as statements of many


#: Turns an UPDATE of one row into one of many: parameters become columns of rows.
Join = Callable[[Update, ColumnTypes], Update]


@lru_cache(maxsize=256)
def joined(join: Join, statement: Update, dialect: Dialect, differing: tuple[str, ...]) -> Update:
    """Let the *differing* parameters of a statement be columns."""
    types = parameters_of(statement, dialect)
    return join(statement, {name: types[name] for name in differing})


@lru_cache(maxsize=64)
def parameters_of(statement: Update, dialect: Dialect) -> ColumnTypes:
    """Find the parameters that a statement needs, and their types: those of their columns."""
    binds = cast(Any, statement.compile(dialect=dialect)).binds
    return {name: bind.type for name, bind in sorted(binds.items()) if bind.required}


def with_columns(statement: Update, columns: Mapping[str, ColumnElement[Any]]) -> Update:
    """Put columns in the place of a statement's parameters, by their names."""

    def replace(element: Any, **_: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's own signature
        return columns.get(element.key) if isinstance(element, BindParameter) else None

    return cast(Update, visitors.replacement_traverse(statement, {}, replace))


def type_name(kind: TypeEngine[Any], names: Mapping[type[TypeEngine[Any]], str]) -> str:
    """Call a column's type as a server does. No statement for many rows sets a flag."""
    if isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    return next(name for known, name in names.items() if isinstance(kind, known))
