"""What a transition writes: the columns that changed, and a row in the archive."""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Integer, Update, bindparam, insert, update

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.transitions import changes

from ..dialect import Dialect
from ..schema.tables import by_id, executions, failed_tasks
from .own import OwnTable
from .schedule_columns import write_retry

#: An execution before a change and after it.
Change = tuple[Execution, Execution]

#: Numbers that are written as an increment: the row's own may be another.
_GROWING: Final = {"version_by": executions.c.version, "crashes_by": executions.c.crashes}


def write_changes(connection: Connection, dialect: Dialect, changed: Iterable[Change]) -> None:
    """Write what each change changes, and nothing else of a row."""
    by_names: dict[tuple[str, ...], dict[tuple[object, ...], list[int]]] = {}
    for before, after in changed:
        if columns := _columns(before, after):
            alike = by_names.setdefault(tuple(columns), defaultdict(list))
            alike[tuple(columns.values())].append(before.id)
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
    """Write these fields, whatever the row holds: it may be what could not be read."""
    columns = {field: getattr(execution, field) for field in fields}
    connection.execute(_update_alike(fields), {**columns, "ids": [execution.id]})


def _columns(before: Execution, after: Execution) -> dict[str, Any]:
    columns = changes(before, after)
    if "version" in columns:
        columns["version_by"] = columns.pop("version") - before.version
    if "retry" in columns:
        columns["retry"] = write_retry(after.retry)
    if "crashes" in columns:
        crashes = len(columns.pop("crashes"))
        if crashes:
            columns["crashes_by"] = crashes - len(before.crashes)
        else:
            columns["crashes"] = 0
    return columns


@lru_cache
def _update_alike(names: tuple[str, ...]) -> Update:
    return by_id(_update(names))


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


#: Inserts rows of `archive_values`.
ARCHIVE: Final = insert(failed_tasks)

_WRITTEN: Final = [column.name for column in failed_tasks.c if column.name != "id"]
FAILURE: Final = OwnTable(failed_tasks)


def archive_values(archived: Archived) -> dict[str, Any]:
    """Give the columns of a new row, but for its id."""
    return {name: getattr(archived, name) for name in _WRITTEN}


def read_archived(rows: Iterable[Any], **unread: Any) -> list[Archived]:  # noqa: ANN401
    """Read the rows that fit.

    They have all columns, or those that are *unread* have these values.
    """
    return [Archived(**unread, **msgspec.structs.asdict(each)) for each in FAILURE.readable(rows)]
