"""Many rows in one statement: what all agree in is said once, the rest comes as rows of values.

A server makes rows of its parameters; how is its dialect's (`RowSource`). 1,000 rows are a few
milliseconds then, over any distance. A column of them costs the server more than all else that it
does with a row, and most are the same in all rows of a batch.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Protocol, cast

import attrs
import msgspec
from sqlalchemy import ColumnElement, Connection, Update
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import DateTime, Float, Integer, NullType, TypeDecorator, TypeEngine

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
    """Rows as parameters. *agreed* are the values of columns that are equal in all of them.

    *differences* are each row's values of the other columns.
    """

    agreed: Mapping[str, Any]
    differing: tuple[str, ...]
    differences: Sequence[tuple[Any, ...]]


def rows_of(names: Iterable[str], rows: Sequence[Sequence[Any]]) -> Rows:
    """Take rows apart, whose values are in the order of *names*."""
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
    """Give the values of plans, in one order everywhere, so that replicas do not deadlock."""
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
        """Give the parameters of each statement that it takes; none for no rows."""
        ...

    def select(self, columns: ColumnTypes, differing: Collection[str]) -> str:
        """Write the SELECT of such rows: the *differing* columns are theirs, the others agreed."""
        ...

    def joined(self, statement: Update, differing: tuple[str, ...]) -> Update:
        """Turn an UPDATE of one row into one of many, whose *differing* parameters are columns."""
        ...


def update_many(
    connection: Connection,
    source: RowSource,
    statement: Update,
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Execute an UPDATE of one row for all *rows*, as one statement where they differ."""
    names = parameters_of(statement)
    fresh = rows_of(names, [[row[name] for name in names] for row in rows])
    joined = _joined(source, statement, fresh.differing) if fresh.differing else statement
    for parameters in source.parameters(fresh):
        connection.execute(joined, parameters)


@lru_cache(maxsize=256)
def _joined(source: RowSource, statement: Update, differing: tuple[str, ...]) -> Update:
    return source.joined(statement, differing)


@lru_cache(maxsize=64)
def parameters_of(statement: Update) -> ColumnTypes:
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
        """Name a column's type. Flags have none: nothing of ours sets one for many rows."""
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
