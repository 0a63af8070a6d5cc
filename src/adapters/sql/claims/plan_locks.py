"""Locking the plans of a page of schedules, without those that another transaction has locked."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
from sqlalchemy import Connection, Row, bindparam, select

from ..schema.tables import FOUND_BY_KEY, plans
from ..transactions.database import Database

Rows = Sequence[Row[Any]]

_PLANS = (
    select(plans.c.scheduler_id)
    .where(plans.c.scheduler_id.in_(bindparam("ids", expanding=True)))
    .with_hint(plans, FOUND_BY_KEY, "mysql")
)
UNLOCKED = _PLANS.with_for_update(skip_locked=True)


@attrs.frozen(kw_only=True)
class Page:
    """Schedules whose plans are locked by us; *is_full*: there may be more behind them.

    *busy* is how many were left out, as others have them locked.
    """

    rows: Rows
    is_full: bool
    busy: int = 0


class PlanLocks:
    """Locks plans in transactions of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(
        self, connection: Connection, found: Rows, *, limit: int, behind: Callable[[Row[Any]], Rows]
    ) -> Page:
        """Lock what is free of a page, or of the first one *behind* it of which anything is."""
        busy = 0
        while True:
            rows = self._free(connection, found)
            busy += len(found) - len(rows)
            is_full = len(found) == limit
            if rows or not is_full:
                return Page(rows=rows, is_full=is_full, busy=busy)
            found = behind(found[-1])

    def _free(self, connection: Connection, found: Rows) -> Rows:
        planned = [row.id for row in found if row.planned_id is not None]
        fresh = [row.id for row in found if row.planned_id is None]
        free = set(connection.scalars(UNLOCKED, {"ids": planned})) if planned else set()
        if fresh:
            # A plan that another transaction inserts just now has no row yet that could be locked.
            connect = partial(self._database.read, "looking for plans that are being made")
            made = self._database.dialect.read_uncommitted(connect, _PLANS, {"ids": fresh})
            free |= set(fresh) - {row.scheduler_id for row in made}
        return [row for row in found if row.id in free]
