"""The limits of retries in SQL, as people see them."""

from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy import Engine, delete, select

from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget
from cronhare.ports.system import ClockPort

from ..transactions.database import Database, repeatable
from .table import BREAKERS, BUDGETS, LimitTable

L = TypeVar("L", Budget, Breaker)


class SqlLimitStore:
    """Satisfies `LimitStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def budgets(self, *, limit: int) -> Sequence[Budget]:
        return self._list(BUDGETS, limit)

    @repeatable
    def budget(self, queue: str) -> Budget | None:
        return self._find(BUDGETS, queue)

    @repeatable
    def breakers(self, *, limit: int) -> Sequence[Breaker]:
        return self._list(BREAKERS, limit)

    @repeatable
    def breaker(self, task: str) -> Breaker | None:
        return self._find(BREAKERS, task)

    @repeatable
    def reset(self, task: str) -> bool:
        with self._database.write(f"resetting the circuit breaker of {task}") as connection:
            gone = delete(BREAKERS.table).where(BREAKERS.key == task)
            return connection.execute(gone).rowcount > 0

    def _list(self, of: LimitTable[L], limit: int) -> list[L]:
        with self._database.read(f"listing {of.table.name}") as connection:
            rows = connection.execute(select(of.table).order_by(of.key).limit(limit)).all()
        return of.readable(rows)

    def _find(self, of: LimitTable[L], key: str) -> L | None:
        with self._database.read(f"looking into {of.table.name}") as connection:
            rows = connection.execute(select(of.table).where(of.key == key)).all()
        return next(iter(of.readable(rows)), None)
