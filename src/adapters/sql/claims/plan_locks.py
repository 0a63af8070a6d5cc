"""Pages of schedules whose plans nobody else holds: another replica in its midst, or a person."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
from sqlalchemy import Connection, Row, bindparam, select

from ..schema.tables import plans
from ..transactions.database import Database

Rows = Sequence[Row[Any]]

_PLANS = select(plans.c.scheduler_id).where(
    plans.c.scheduler_id.in_(bindparam("ids", expanding=True))
)


@attrs.frozen(kw_only=True)
class Page:
    """Schedules that may be planned. *is_full* says that there may be more behind them."""

    looks: Rows
    is_full: bool
    busy: int


class PlanLocks:
    """Holds the plans of schedules that were found, and leaves out what others have."""

    def __init__(self, database: Database) -> None:
        """What is held is held in the transactions of *database*."""
        self._database = database
        self._locking = _PLANS.with_for_update(skip_locked=True)

    def take(
        self, connection: Connection, found: Rows, *, limit: int, behind: Callable[[Row[Any]], Rows]
    ) -> Page:
        """Take what is free of a page, or of the first one *behind* it of which anything is."""
        busy = 0
        while True:
            looks = self._free(connection, found)
            busy += len(found) - len(looks)
            is_full = len(found) == limit
            if looks or not is_full:
                return Page(looks=looks, is_full=is_full, busy=busy)
            found = behind(found[-1])

    def _free(self, connection: Connection, found: Rows) -> Rows:
        planned = [look.id for look in found if look.planned_id is not None]
        fresh = [look.id for look in found if look.planned_id is None]
        free = set(connection.scalars(self._locking, {"ids": planned})) if planned else set()
        if fresh:
            # A plan that is inserted just now has no row yet that could be held, or passed over.
            connect = partial(self._database.read, "looking for plans that are being made")
            made = self._database.dialect.read_uncommitted(connect, _PLANS, {"ids": fresh})
            free |= set(fresh) - {row.scheduler_id for row in made}
        return [look for look in found if look.id in free]
