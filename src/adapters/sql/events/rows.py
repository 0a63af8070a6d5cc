"""Rows of the outbox, read and written."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, insert, select

from cronhare.domain.lifecycle.events import OutboxRow

from ..mapping.own_rows import OwnTable
from ..schema.tables import outbox

#: Rows that are inserted by one statement.
AT_ONCE: Final = 500

_WRITTEN: Final = [column.name for column in outbox.c if column.name != "id"]
_INSERT: Final = insert(outbox)
_THERE: Final = select(outbox.c.event_key, outbox.c.target).where(
    outbox.c.event_key.in_(bindparam("keys", expanding=True))
)
DELIVERY: Final = OwnTable(outbox)


def read_outbox_rows(rows: Iterable[Any]) -> list[OutboxRow]:
    """Read the rows that fit; they have all columns."""
    return [OutboxRow(**msgspec.structs.asdict(each)) for each in DELIVERY.readable(rows)]


def insert_new(connection: Connection, wanted: Sequence[OutboxRow]) -> int:
    """Insert what is not there; what another has just added raises, to be repeated."""
    added = 0
    for at in range(0, len(wanted), AT_ONCE):
        part = {(one.event_key, one.target): one for one in wanted[at : at + AT_ONCE]}
        there = _there(connection, {key for key, _ in part})
        rows = [_values(one) for place, one in part.items() if place not in there]
        if rows:
            connection.execute(_INSERT, rows)
        added += len(rows)
    return added


def _there(connection: Connection, keys: Collection[str]) -> set[tuple[str, str]]:
    rows = connection.execute(_THERE, {"keys": sorted(keys)})
    return {(row.event_key, row.target) for row in rows}


def _values(row: OutboxRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _WRITTEN}
