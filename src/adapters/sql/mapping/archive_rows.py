"""Rows of the archive, read and written."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from sqlalchemy import insert

from cronhare.domain.lifecycle.archive import Archived

from ..schema.tables import failed_tasks
from .own_rows import OwnTable

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
