"""What a batch of ends or renewals has to know of its executions, and which of them are locked."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from ..schema.tables import executions

_THESE = executions.c.id.in_(bindparam("ids", expanding=True))
_IDS = select(executions.c.id).where(_THESE)

STANDING: Select[Any] = select(
    executions.c.id,
    executions.c.state,
    executions.c.owner,
    executions.c.lease_until,
    executions.c.attempt,
    executions.c.version,
    executions.c.deaths,
    executions.c.cancel_requested,
).where(_THESE)
UNLOCKED_STANDING = STANDING.with_for_update(skip_locked=True)


def locked_elsewhere(connection: Connection, not_found: Collection[int]) -> Collection[int]:
    """Give the ids that exist although a look with `SKIP LOCKED` has not found them."""
    if not not_found:
        return ()
    return frozenset(connection.scalars(_IDS, {"ids": list(not_found)}))
