"""Rows of the archive, read and written."""

from typing import Any, Final

from sqlalchemy import insert

from cronhare.domain.lifecycle.archive import Archived

from ..schema.tables import failed_tasks
from .tolerant_reading import TableReader, text

#: Inserts rows of `archive_values`.
ARCHIVE: Final = insert(failed_tasks)

_WRITTEN: Final = [column.name for column in failed_tasks.c if column.name != "id"]
_READER: Final = TableReader(failed_tasks, params=text(stand_in="{}"))


def archive_values(archived: Archived) -> dict[str, Any]:
    """Give the columns of a new row, but for its id."""
    return {name: getattr(archived, name) for name in _WRITTEN}


def read_archived(row: Any, **unread: Any) -> Archived:  # noqa: ANN401 - see `TableReader.read`
    """Read a row; a broken one says so in `Archived.problem`.

    It has all columns, or those that are *unread* have these values.
    """
    return Archived(**(unread | _READER.fields(row)))
