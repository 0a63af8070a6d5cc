"""Forgetting gates that nobody has passed for a while: a key may name a customer who is gone."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import bindparam, delete, select

from ..schema.tables import gates
from ..schema.types import UtcDateTime
from ..transactions.database import Database

#: Who runs with a key for longer is found again once its gate is made anew.
UNUSED_FOR: Final = timedelta(days=1)

_STEP: Final = 1_000

_UNUSED: Final = (
    select(gates.c.name)
    .where(gates.c.used_at < bindparam("limit", type_=UtcDateTime))
    .limit(_STEP)
    .with_for_update(skip_locked=True)
)
_FORGET: Final = delete(gates).where(gates.c.name.in_(bindparam("names", expanding=True)))


def forget_gates(database: Database, now: datetime) -> Iterator[None]:
    """Delete the rows of unused gates, step by step."""
    found = _STEP
    while found == _STEP:
        with database.write("forgetting gates") as connection:
            names = list(connection.scalars(_UNUSED, {"limit": now - UNUSED_FOR}))
            if names:
                connection.execute(_FORGET, {"names": names})
        found = len(names)
        yield
