"""What a change of executions writes: the columns in which they differ before it and after it.

Their rows are held. Most of a batch change alike, and are written by one plain statement; the rest
by one of many rows.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Integer, Update, bindparam, update

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.transitions import changes

from ..dialect import Dialect
from ..schema.tables import executions

#: An execution before a change and after it.
Change = tuple[Execution, Execution]

#: Numbers of which it is written by how much they grow, as a row's own may be another.
_GROWING: Final = {"version_by": executions.c.version, "crashes_by": executions.c.crashes}


def write_changes(connection: Connection, dialect: Dialect, changed: Iterable[Change]) -> None:
    """Write what each change changes, and nothing else of a row."""
    by_names: dict[tuple[str, ...], dict[tuple[object, ...], list[int]]] = {}
    for before, after in changed:
        if cells := _cells(before, after):
            alike = by_names.setdefault(tuple(cells), defaultdict(list))
            alike[tuple(cells.values())].append(before.id)
    for names, alike in by_names.items():
        most = max(alike, key=lambda values: len(alike[values]))
        said = dict(zip(names, most, strict=True))
        connection.execute(_update_alike(names), {**said, "ids": alike.pop(most)})
        rest = [
            {**dict(zip(names, values, strict=True)), "changed_id": id_}
            for values, ids in alike.items()
            for id_ in ids
        ]
        if rest:
            dialect.update_many(connection, _update_each(names), rest)


def write_fields(connection: Connection, execution: Execution, *fields: str) -> None:
    """Write these fields, whatever stands in the row: it may be what could not be read."""
    cells = {field: getattr(execution, field) for field in fields}
    connection.execute(_update_alike(fields), {**cells, "ids": [execution.id]})


def _cells(before: Execution, after: Execution) -> dict[str, Any]:
    cells = changes(before, after)
    if "version" in cells:
        cells["version_by"] = cells.pop("version") - before.version
    if "crashed_at" in cells:
        crashes = len(cells.pop("crashed_at"))
        if crashes:
            cells["crashes_by"] = crashes - len(before.crashed_at)
        else:
            cells["crashes"] = 0
    return cells


@lru_cache
def _update_alike(names: tuple[str, ...]) -> Update:
    return _update(names).where(executions.c.id.in_(bindparam("ids", expanding=True)))


@lru_cache
def _update_each(names: tuple[str, ...]) -> Update:
    return _update(names).where(executions.c.id == bindparam("changed_id"))


def _update(names: tuple[str, ...]) -> Update:
    return update(executions).values(dict(map(_assigned, names)))


def _assigned(name: str) -> tuple[str, ColumnElement[Any]]:
    if name in _GROWING:
        column = _GROWING[name]
        return column.name, column + bindparam(name, type_=Integer)
    return name, bindparam(name, type_=executions.c[name].type)
