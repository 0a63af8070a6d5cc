"""Deleting what nobody has asked for long: limits of retries, and notes of held messages."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, select

from cronhare.domain.retries.limits import IDLE_FOR
from cronhare.domain.retries.redeliveries import KEPT_FOR

from ..schema.tables import holds
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .table import BREAKERS, BUDGETS, LimitTable

#: So many of a kind go in one cleanup.
_MOST: Final = 10_000


def forget_idle_limits(database: Database, now: datetime) -> None:
    """Delete what has been idle for long; what is locked goes another day."""
    _forget(database, BUDGETS, now - IDLE_FOR)
    _forget(database, BREAKERS, now - IDLE_FOR)
    _forget_holds(database, now - KEPT_FOR)


@repeatable
def _forget_holds(database: Database, before: datetime) -> None:
    with database.write(f"cleaning up {holds.name}") as connection:
        connection.execute(delete(holds).where(holds.c.at < before))


@repeatable
def _forget(database: Database, of: LimitTable[Any], before: datetime) -> None:
    last_at = of.table.c.last_at
    idle = select(of.key).where(last_at < bindparam("before", type_=UtcDateTime)).limit(_MOST)
    with database.write(f"cleaning up {of.table.name}") as connection:
        unlocked = idle.with_for_update(skip_locked=True)
        keys = connection.scalars(unlocked, {"before": before}).all()
        if keys:
            connection.execute(delete(of.table).where(of.key.in_(keys)))
