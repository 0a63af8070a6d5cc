"""Many rows in one statement: values that all rows share are said once, the others come as rows.

A server makes rows of its parameters, as its dialect says (`RowSource`): 1,000 rows take a few
milliseconds, over any distance. Each column of them costs the server more than all else that it
does with a row, and in a batch most columns are the same in all rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Protocol, cast

import attrs
import msgspec
from sqlalchemy import ColumnElement, Connection, Dialect, Update
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import DateTime, Float, Integer, TypeDecorator, TypeEngine

from ..dialect import PlanRow
from ..schema.tables import plans
from ..schema.types import to_text

#: Columns in their order, each with its type.
ColumnTypes = Mapping[str, TypeEngine[Any]]

#: Those of `plan_values`.
PLAN_COLUMNS: Final[ColumnTypes] = {name: plans.c[name].type for name in PlanRow.__struct_fields__}

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


def plan_values(rows: Iterable[PlanRow]) -> list[tuple[Any, ...]]:
    """Give the values of plans, always in the order of ids, so that replicas do not deadlock."""
    ordered = sorted(rows, key=attrgetter("scheduler_id"))
    return [tuple(as_texts(msgspec.structs.astuple(row))) for row in ordered]


def as_texts(values: Iterable[object]) -> list[object]:
    """Write moments as texts. A function for each value would take three times as long."""
    return [to_text(value) if isinstance(value, datetime) else value for value in values]


# Statements of one row as statements of many


class RowSource(Protocol):
    """How a server makes rows of parameters."""

    def __hash__(self) -> int:
        """What it makes of a statement is cached."""
        ...

    def parameters(self, rows: Rows) -> Iterator[dict[str, Any]]:
        """Give the parameters of each statement that is needed; none for no rows."""
        ...

    def select(self, columns: ColumnTypes, differing: Collection[str]) -> str:
        """Write the SELECT of such rows; columns that are not *differing* are parameters."""
        ...

    def joined(self, statement: Update, columns: ColumnTypes) -> Update:
        """Turn an UPDATE of one row into one of many: parameters become *columns* of rows."""
        ...


def update_many(
    connection: Connection,
    source: RowSource,
    statement: Update,
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Execute an UPDATE of one row for all *rows*, as one statement where they differ."""
    names = parameters_of(statement, connection.dialect)
    fresh = rows_of(names, [[row[name] for name in names] for row in rows])
    if fresh.differing:
        statement = _joined(source, statement, connection.dialect, fresh.differing)
    for parameters in source.parameters(fresh):
        connection.execute(statement, parameters)


@lru_cache(maxsize=256)
def _joined(
    source: RowSource, statement: Update, dialect: Dialect, differing: tuple[str, ...]
) -> Update:
    types = parameters_of(statement, dialect)
    return source.joined(statement, {name: types[name] for name in differing})


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


@attrs.frozen(kw_only=True)
class TypeNames:
    """How a server calls the types of such columns."""

    moment: str
    number: str
    fraction: str
    text: str

    def of(self, kind: TypeEngine[Any]) -> str:
        """Name a column's type. No statement for many rows sets a flag."""
        if isinstance(kind, TypeDecorator):
            kind = kind.impl_instance
        match kind:
            case DateTime():
                return self.moment
            case Integer():
                return self.number
            case Float():
                return self.fraction
        return self.text
