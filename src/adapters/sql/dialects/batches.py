"""Many rows for one statement. A value that all rows agree in, as most do, is one parameter."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Self, cast

import attrs
import msgspec
from sqlalchemy import ColumnElement, Update
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import NullType, TypeEngine

from ..dialect import PlanRow
from ..schema.tables import plans
from ..schema.types import to_text

#: Columns in their order, each with its type.
ColumnTypes = Mapping[str, TypeEngine[Any]]

#: Those of `plan_values`.
PLAN_COLUMNS: Final[ColumnTypes] = {name: plans.c[name].type for name in PlanRow.__struct_fields__}


@attrs.frozen(kw_only=True)
class Rows:
    """Rows as parameters. *agreed* are the values of columns that are equal in all of them.

    *differences* are each row's values of the other columns.
    """

    agreed: Mapping[str, Any]
    differing: tuple[str, ...]
    differences: Sequence[tuple[Any, ...]]

    @classmethod
    def of_mappings(cls, names: Collection[str], rows: Sequence[Mapping[str, Any]]) -> Self:
        """Take rows apart whose values are given by *names*."""
        return cls.of(names, [[row[name] for name in names] for row in rows])

    @classmethod
    def of(cls, names: Iterable[str], rows: Sequence[Sequence[Any]]) -> Self:
        """Take rows apart, whose values are in the order of *names*."""
        columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
        agreed = {
            name: values[0]
            for name, values in columns.items()
            if values.count(values[0]) == len(values)
        }
        differing = {name: _texts(values) for name, values in columns.items() if name not in agreed}
        return cls(
            agreed=agreed,
            differing=tuple(differing),
            differences=(
                list(zip(*differing.values(), strict=True)) if differing else [()] * bool(rows)
            ),
        )


def plan_values(rows: Iterable[PlanRow]) -> list[tuple[Any, ...]]:
    """Give the values of plans, in one order everywhere, so that replicas do not deadlock."""
    ordered = sorted(rows, key=attrgetter("scheduler_id"))
    return [tuple(_texts(msgspec.structs.astuple(row))) for row in ordered]


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


def _texts(values: Iterable[object]) -> list[object]:
    """Write moments as texts. A function for each value would take three times as long."""
    return [to_text(value) if isinstance(value, datetime) else value for value in values]
