"""A table of limits: rows that are read and locked by their keys, and written anew."""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import attrs
from sqlalchemy import (
    Connection,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from cronhare.application.logs import say
from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget

from ..dialect import Dialect
from ..mapping.limit_rows import (
    BREAKER,
    BUDGET,
    breaker_is_ahead,
    breaker_of,
    breaker_values,
    budget_is_ahead,
    budget_of,
    budget_values,
)
from ..mapping.own_rows import BrokenRow, OwnTable
from ..schema.tables import FOUND_BY_KEY, breakers, budgets

log = logging.getLogger(__name__)

L = TypeVar("L", Budget, Breaker)


@attrs.frozen(kw_only=True, eq=False)
class LimitTable(Generic[L]):
    """The rows of one kind of limit; *read* raises `BrokenRow`."""

    table: Table
    name_of: Callable[[L], str]
    named: Callable[[L, str], L]
    rows: OwnTable
    read: Callable[[Any], L]
    is_ahead: Callable[[L, datetime], bool]
    values: Callable[[L], dict[str, Any]]
    action: str
    _locked: Select[Any] = attrs.field(init=False)
    _update: Update = attrs.field(init=False)
    _insert: Insert = attrs.field(init=False)

    @_locked.default
    def _lock_by_key(self) -> Select[Any]:
        key = self.key
        by_key = select(self.table).where(key.in_(bindparam("keys", expanding=True)))
        in_order = by_key.order_by(key).with_for_update()
        return in_order.with_hint(self.table, FOUND_BY_KEY, "mysql")

    @_update.default
    def _update_by_key(self) -> Update:
        others = [column for column in self.table.c if column is not self.key]
        values = {one.name: bindparam(one.name, type_=one.type) for one in others}
        return update(self.table).where(self.key == bindparam("of_key")).values(values)

    @_insert.default
    def _insert_row(self) -> Insert:
        return insert(self.table)

    @property
    def key(self) -> Any:  # noqa: ANN401 - a column
        """The column that names a limit."""
        [key] = self.table.primary_key
        return key

    def lock(self, connection: Connection, keys: Sequence[str], now: datetime) -> list[L]:
        """Read limits, and lock them until the transaction's end; a broken one begins anew."""
        found = []
        for row in connection.execute(self._locked, {"keys": keys}).all() if keys else ():
            try:
                found.append(self._as_asked(self._read(row, now), keys))
            except BrokenRow as broken:
                text = f"A row was broken, and begins anew: {broken}"
                say(log, logging.WARNING, self.action, text)
                key = getattr(row, self.key.name)
                connection.execute(delete(self.table).where(self.key == key))
        return found

    def _read(self, row: Any, now: datetime) -> L:  # noqa: ANN401 - a row
        limit = self.read(row)
        if self.is_ahead(limit, now):
            raise BrokenRow(self.rows, row, "it is of a clock that was far ahead")
        return limit

    def readable(self, rows: Iterable[Any]) -> list[L]:
        """Read those that fit."""
        found = []
        for row in rows:
            try:
                found.append(self.read(row))
            except BrokenRow as broken:
                say(log, logging.WARNING, self.action, f"A row cannot be read: {broken}")
        return found

    def _as_asked(self, limit: L, keys: Sequence[str]) -> L:
        """Give a limit under the key that it was found by.

        To MySQL blanks at the end are none. Under another name it would be inserted once more, and
        that be refused, and with it each end that asks.
        """
        name = self.name_of(limit)
        if name in keys:
            return limit
        return self.named(limit, next(key for key in keys if key.rstrip(" ") == name.rstrip(" ")))

    def write(
        self,
        connection: Connection,
        dialect: Dialect,
        after: Sequence[L],
        before: Sequence[L],
    ) -> None:
        """Write what has changed of limits that are locked, and insert new ones."""
        known = {self.name_of(limit): limit for limit in before}
        changed = [x for x in after if known.get(self.name_of(x), x) != x]
        new = [x for x in after if self.name_of(x) not in known]
        if changed:
            rows = [{"of_key": self.name_of(x), **self.values(x)} for x in changed]
            dialect.update_many(connection, self._update, rows)
        if new:
            # Of two that insert the same row the later one is repeated, and finds it.
            key = self.key.name
            rows = [{key: self.name_of(x), **self.values(x)} for x in new]
            connection.execute(self._insert, rows)


BUDGETS: Final = LimitTable[Budget](
    table=budgets,
    name_of=lambda budget: budget.queue,
    named=lambda budget, queue: attrs.evolve(budget, queue=queue),
    rows=BUDGET,
    read=budget_of,
    is_ahead=budget_is_ahead,
    values=budget_values,
    action="budget.broken",
)
BREAKERS: Final = LimitTable[Breaker](
    table=breakers,
    name_of=lambda breaker: breaker.task,
    named=lambda breaker, task: attrs.evolve(breaker, task=task),
    rows=BREAKER,
    read=breaker_of,
    is_ahead=breaker_is_ahead,
    values=breaker_values,
    action="breaker.broken",
)
