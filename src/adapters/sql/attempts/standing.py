"""What a batch of ends or renewals has to know of its executions, and which of them are locked."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, select

from ..schema.tables import by_id, executions

_IDS = by_id(select(executions.c.id))

STANDING: Select[Any] = by_id(
    select(
        executions.c.id,
        executions.c.state,
        executions.c.owner,
        executions.c.lease_until,
        executions.c.attempt,
        executions.c.version,
        executions.c.deaths,
        executions.c.cancel_requested,
    )
)
UNLOCKED_STANDING = STANDING.with_for_update(skip_locked=True)


def locked_elsewhere(connection: Connection, not_found: Collection[int]) -> Collection[int]:
    """Give the ids that exist although a look with `SKIP LOCKED` has not found them."""
    if not not_found:
        return ()
    return frozenset(connection.scalars(_IDS, {"ids": list(not_found)}))
