"""The limits of retries in SQL, as people see them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

from sqlalchemy import Engine, bindparam, delete, select

from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget
from cronhare.domain.retries.limits import IDLE_FOR
from cronhare.ports.clock import ClockPort

from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .table import BREAKERS, BUDGETS, LimitTable

L = TypeVar("L", Budget, Breaker)

_KEYS: Final = 1_000


class SqlLimitStore:
    """Satisfies `LimitStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)

    @repeatable
    def budgets(self, *, now: datetime, limit: int) -> Sequence[Budget]:
        """See `LimitStorePort.budgets`."""
        return self._list(BUDGETS, now, limit)

    @repeatable
    def budget(self, queue: str, *, now: datetime) -> Budget | None:
        """See `LimitStorePort.budget`."""
        return self._find(BUDGETS, queue, now)

    @repeatable
    def breakers(self, *, now: datetime, limit: int) -> Sequence[Breaker]:
        """See `LimitStorePort.breakers`."""
        return self._list(BREAKERS, now, limit)

    @repeatable
    def breaker(self, task: str, *, now: datetime) -> Breaker | None:
        """See `LimitStorePort.breaker`."""
        return self._find(BREAKERS, task, now)

    @repeatable
    def reset(self, task: str) -> bool:
        """See `LimitStorePort.reset`."""
        with self._database.write(f"resetting the circuit breaker of {task}") as connection:
            gone = delete(BREAKERS.table).where(BREAKERS.key == task)
            return connection.execute(gone).rowcount > 0

    def clean_up(self, *, now: datetime) -> int:
        """See `LimitStorePort.clean_up`. What is locked is deleted another day."""
        before = now - IDLE_FOR
        return self._clean_up(BUDGETS, before) + self._clean_up(BREAKERS, before)

    def _list(self, of: LimitTable[L], now: datetime, limit: int) -> list[L]:
        with self._database.read(f"listing {of.table.name}") as connection:
            rows = connection.execute(select(of.table).order_by(of.key).limit(limit)).all()
        return [of.read(row, now)[0] for row in rows]

    def _find(self, of: LimitTable[L], key: str, now: datetime) -> L | None:
        with self._database.read(f"looking into {of.table.name}") as connection:
            row = connection.execute(select(of.table).where(of.key == key)).first()
        return None if row is None else of.read(row, now)[0]

    @repeatable
    def _clean_up(self, of: LimitTable[L], before: datetime) -> int:
        last_at = of.table.c.last_at
        idle = select(of.key).where(last_at < bindparam("before", type_=UtcDateTime)).limit(_KEYS)
        with self._database.write(f"cleaning up {of.table.name}") as connection:
            unlocked = idle.with_for_update(skip_locked=True)
            keys = connection.scalars(unlocked, {"before": before}).all()
            if keys:
                connection.execute(delete(of.table).where(of.key.in_(keys)))
            return len(keys)
