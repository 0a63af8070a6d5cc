"""Moments with numbers in one column, as JSON: `[[microseconds since 1970, number], …]`."""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec
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
from cronhare.domain.retries.breaker import LONGEST, Breaker
from cronhare.domain.retries.budget import LARGEST, LONGEST_DEFERRAL, LONGEST_WINDOW, Budget

from ..dialect import Dialect
from ..rows.own import BrokenRow, OwnTable, whole
from ..schema.tables import FOUND_BY_KEY, breakers, budgets
from ..schema.types import milliseconds

#: Moments, oldest first, each with a number.
Counts = tuple[tuple[datetime, int], ...]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_decode: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode


def write_counts(counts: Sequence[tuple[datetime, int]]) -> str:
    """Write moments and numbers.

    >>> write_counts([(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 3)])
    '[[1000000,3]]'
    """
    return msgspec.json.encode([((at - _EPOCH) // _MICROSECOND, n) for at, n in counts]).decode()


def read_counts(text: str) -> Counts:
    """Read what `write_counts` wrote.

    Raises:
        ValueError: it is something else.
        OverflowError: a moment is no year of ours.
    """
    return tuple((_EPOCH + at * _MICROSECOND, number) for at, number in _decode(text))


_MILLISECOND: Final = timedelta(milliseconds=1)
BUDGET: Final = OwnTable(
    budgets,
    most=whole(1, LARGEST),
    window_ms=whole(1, LONGEST_WINDOW // _MILLISECOND),
)
BREAKER: Final = OwnTable(breakers, window_ms=whole(1, LONGEST // _MILLISECOND))


def budget_values(budget: Budget) -> dict[str, Any]:
    """Give the columns of a budget, but for its queue."""
    return {
        "most": budget.most,
        "window_ms": milliseconds(budget.window),
        "granted": write_counts(budget.grants),
        "spent_since": budget.spent_since,
        "last_at": budget.granted_at,
    }


def budget_of(row: Any) -> Budget:  # noqa: ANN401 - a row
    """Read a budget.

    Raises:
        BrokenRow: it does not fit.
    """
    read = BUDGET.read(row)
    return Budget(
        queue=read.queue,
        most=read.most,
        window=read.window_ms * _MILLISECOND,
        grants=_counts(BUDGET, row, "granted"),
        spent_since=read.spent_since,
        granted_at=read.last_at,
    )


def budget_is_ahead(budget: Budget, now: datetime) -> bool:
    """Tell whether a clock was so far ahead that it would hold back what is due for long."""
    last = now + LONGEST_DEFERRAL + LONGEST_WINDOW
    return any(at >= last for at, _ in budget.grants)


def breaker_values(breaker: Breaker) -> dict[str, Any]:
    """Give the columns of a breaker, but for its task."""
    return {
        "window_ms": milliseconds(breaker.window),
        "failures": write_counts(breaker.failures),
        "judged_at": breaker.judged_at,
        "next_failures": breaker.next_failures,
        "opened_at": breaker.opened_at,
        "failed": breaker.failed,
        "succeeded": breaker.succeeded,
        "probe_at": breaker.probe_at,
        "probe": breaker.probe,
        "last_at": breaker.last_at,
        "task_name": breaker.name,
    }


def breaker_of(row: Any) -> Breaker:  # noqa: ANN401 - a row
    """Read a breaker.

    Raises:
        BrokenRow: it does not fit.
    """
    read = BREAKER.read(row)
    return Breaker(
        task=read.task,
        name=read.task_name,
        window=read.window_ms * _MILLISECOND,
        last_at=read.last_at,
        failures=_counts(BREAKER, row, "failures"),
        judged_at=read.judged_at,
        next_failures=read.next_failures,
        opened_at=read.opened_at,
        failed=read.failed,
        succeeded=read.succeeded,
        probe_at=read.probe_at,
        probe=read.probe,
    )


def breaker_is_ahead(breaker: Breaker, now: datetime) -> bool:
    """Tell likewise of a breaker."""
    probe_at = breaker.probe_at
    return any(at >= now + LONGEST for at, _ in breaker.failures) or (
        probe_at is not None and probe_at > now + 2 * LONGEST
    )


def _counts(table: OwnTable, row: Any, column: str) -> Counts:  # noqa: ANN401
    try:
        return read_counts(getattr(row, column))
    except (ValueError, OverflowError) as error:
        raise BrokenRow(table, row, f"{column}: {error}") from error


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
