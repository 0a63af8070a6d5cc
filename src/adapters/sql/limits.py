"""Limits of retries: judged with the ends and starts of a batch, shown, and forgotten."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec
from sqlalchemy import (
    Connection,
    Engine,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from cronhare.application.logs import say
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.catching_up import CatchUp, HeldUpRetries
from cronhare.domain.lifecycle.retry_limits import (
    AttemptEnd,
    RetryJudge,
    Ruled,
    queues_asked,
    tasks_asked,
)
from cronhare.domain.retries.breaker import LONGEST, Breaker
from cronhare.domain.retries.budget import LARGEST, LONGEST_DEFERRAL, LONGEST_WINDOW, Budget
from cronhare.domain.retries.limits import IDLE_FOR
from cronhare.domain.retries.redeliveries import KEPT_FOR
from cronhare.ports.attempts import Deferred, StartAnswer
from cronhare.ports.system import ClockPort

from .database import Database, repeatable
from .dialect import Dialect
from .rows.changes import Change
from .rows.own import BrokenRow, OwnTable, whole
from .rows.schedule_columns import NUMBER_COLUMNS
from .schema.tables import FOUND_BY_KEY, breakers, budgets, executions, holds, schedulers
from .schema.types import UtcDateTime, milliseconds

log = logging.getLogger(__name__)

L = TypeVar("L", Budget, Breaker)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_decode: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode

BUDGET: Final = OwnTable(
    budgets,
    most=whole(1, LARGEST),
    window_ms=whole(1, LONGEST_WINDOW // _MILLISECOND),
)
BREAKER: Final = OwnTable(breakers, window_ms=whole(1, LONGEST // _MILLISECOND))


def _write_counts(counts: Sequence[tuple[datetime, int]]) -> str:
    """Write moments with numbers as JSON: `[[microseconds since 1970, number], …]`."""
    return msgspec.json.encode([((at - _EPOCH) // _MICROSECOND, n) for at, n in counts]).decode()


def _read_counts(table: OwnTable, row: Any, column: str) -> tuple[tuple[datetime, int], ...]:  # noqa: ANN401 - a row
    try:
        counts = _decode(getattr(row, column))
        return tuple((_EPOCH + at * _MICROSECOND, number) for at, number in counts)
    except (ValueError, OverflowError) as error:
        raise BrokenRow(table, row, f"{column}: {error}") from error


def _budget_values(budget: Budget) -> dict[str, Any]:
    return {
        "queue": budget.queue,
        "most": budget.most,
        "window_ms": milliseconds(budget.window),
        "granted": _write_counts(budget.grants),
        "spent_since": budget.spent_since,
        "last_at": budget.granted_at,
    }


def _budget_of(row: Any) -> Budget:  # noqa: ANN401 - a row
    read = BUDGET.read(row)
    return Budget(
        queue=read.queue,
        most=read.most,
        window=read.window_ms * _MILLISECOND,
        grants=_read_counts(BUDGET, row, "granted"),
        spent_since=read.spent_since,
        granted_at=read.last_at,
    )


def _budget_is_ahead(budget: Budget, now: datetime) -> bool:
    last = now + LONGEST_DEFERRAL + LONGEST_WINDOW
    return any(at >= last for at, _ in budget.grants)


def _breaker_values(breaker: Breaker) -> dict[str, Any]:
    return {
        "task": breaker.task,
        "window_ms": milliseconds(breaker.window),
        "failures": _write_counts(breaker.failures),
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


def _breaker_of(row: Any) -> Breaker:  # noqa: ANN401 - a row
    read = BREAKER.read(row)
    return Breaker(
        task=read.task,
        name=read.task_name,
        window=read.window_ms * _MILLISECOND,
        last_at=read.last_at,
        failures=_read_counts(BREAKER, row, "failures"),
        judged_at=read.judged_at,
        next_failures=read.next_failures,
        opened_at=read.opened_at,
        failed=read.failed,
        succeeded=read.succeeded,
        probe_at=read.probe_at,
        probe=read.probe,
    )


def _breaker_is_ahead(breaker: Breaker, now: datetime) -> bool:
    probe_at = breaker.probe_at
    return any(at >= now + LONGEST for at, _ in breaker.failures) or (
        probe_at is not None and probe_at > now + 2 * LONGEST
    )


class LimitTable(Generic[L]):
    """The rows of one kind of limit, which are named by their only key."""

    def __init__(
        self,
        table: Table,
        *,
        rows: OwnTable,
        read: Callable[[Any], L],
        values: Callable[[L], dict[str, Any]],
        is_ahead: Callable[[L, datetime], bool],
        action: str,
    ) -> None:
        """*read* raises `BrokenRow`; *is_ahead* tells of a clock that was far ahead.

        Such a limit would hold back what is due for long.
        """
        [self.key] = table.primary_key
        self.table = table
        self._rows = rows
        self._read: Callable[[Any], L] = read
        self._values: Callable[[L], dict[str, Any]] = values
        self._is_ahead: Callable[[L, datetime], bool] = is_ahead
        self._action = action
        self._lock = (
            select(table)
            .where(self.key.in_(bindparam("keys", expanding=True)))
            .order_by(self.key)
            .with_for_update()
            .with_hint(table, FOUND_BY_KEY, "mysql")
        )
        others = {one.name: bindparam(one.name, type_=one.type) for one in table.c}
        del others[self.key.name]
        self._update = update(table).where(self.key == bindparam("of_key")).values(others)
        self._insert = insert(table)

    def lock(self, connection: Connection, keys: Sequence[str], now: datetime) -> list[L]:
        """Read limits, and lock them until the transaction's end; a broken one begins anew."""
        found = []
        for row in connection.execute(self._lock, {"keys": keys}).all() if keys else ():
            try:
                found.append(self._as_asked(self._read_sound(row, now), keys))
            except BrokenRow as broken:
                text = f"A row was broken, and begins anew: {broken}"
                say(log, logging.WARNING, self._action, text)
                key = getattr(row, self.key.name)
                connection.execute(delete(self.table).where(self.key == key))
        return found

    def _read_sound(self, row: Any, now: datetime) -> L:  # noqa: ANN401 - a row
        limit = self._read(row)
        if self._is_ahead(limit, now):
            raise BrokenRow(self._rows, row, "it is of a clock that was far ahead")
        return limit

    def readable(self, rows: Iterable[Any]) -> list[L]:
        """Read those that fit."""
        found = []
        for row in rows:
            try:
                found.append(self._read(row))
            except BrokenRow as broken:
                say(log, logging.WARNING, self._action, f"A row cannot be read: {broken}")
        return found

    def write(
        self, connection: Connection, dialect: Dialect, after: Sequence[L], before: Sequence[L]
    ) -> None:
        """Write what has changed of limits that are locked, and insert new ones."""
        known = {self._name(limit): limit for limit in before}
        changed = [x for x in after if known.get(self._name(x), x) != x]
        new = [self._values(x) for x in after if self._name(x) not in known]
        if changed:
            rows = [{"of_key": self._name(x), **self._values(x)} for x in changed]
            dialect.update_many(connection, self._update, rows)
        if new:  # of two that insert the same row the later one is repeated, and finds it
            connection.execute(self._insert, new)

    def _name(self, limit: L) -> str:
        name: str = getattr(limit, self.key.name)
        return name

    def _as_asked(self, limit: L, keys: Sequence[str]) -> L:
        """Give a limit under the key that it was found by.

        To MySQL blanks at the end are none. Under another name it would be inserted once more, and
        that be refused, and with it each end that asks.
        """
        name = self._name(limit)
        if name in keys:
            return limit
        asked = next(key for key in keys if key.rstrip(" ") == name.rstrip(" "))
        renamed: dict[str, Any] = {self.key.name: asked}
        return attrs.evolve(limit, **renamed)


BUDGETS: Final = LimitTable[Budget](
    budgets,
    rows=BUDGET,
    read=_budget_of,
    values=_budget_values,
    is_ahead=_budget_is_ahead,
    action="budget.broken",
)
BREAKERS: Final = LimitTable[Breaker](
    breakers,
    rows=BREAKER,
    read=_breaker_of,
    values=_breaker_values,
    is_ahead=_breaker_is_ahead,
    action="breaker.broken",
)

_asked = schedulers.alias("asked")
_same_task = and_(
    *(
        schedulers.c[name].is_not_distinct_from(_asked.c[name])
        for name in (*NUMBER_COLUMNS, "topic")
    )
)
# Each schedule of the task is one look into the index (scheduler_id, finished_at). The state is
# compared in a way that no index of states serves: that would find all that ever succeeded.
_successes: Final = (
    select(executions.c.id)
    .select_from(_asked)
    .join(schedulers, _same_task)
    .join(executions, executions.c.scheduler_id == schedulers.c.id)
    .where(
        _asked.c.id == bindparam("scheduler_id"),
        executions.c.finished_at >= bindparam("since", type_=UtcDateTime),
        func.coalesce(executions.c.state, "") == State.SUCCEEDED.value,
        executions.c.task_type == bindparam("task_type"),
        executions.c.task_id == bindparam("task_id"),
    )
    .limit(bindparam("enough"))
    .subquery()
)
_COUNT: Final[Select[Any]] = select(func.count()).select_from(_successes)
_STATE: Final = select(executions.c.state).where(executions.c.id == bindparam("probe"))
_STATES: Final = frozenset(State)


@attrs.define
class SqlEvidence:
    """Satisfies `Evidence`, within one transaction."""

    _connection: Connection
    _states: dict[int, State | None] = attrs.field(init=False, factory=dict[int, State | None])

    def successes(self, of: Execution, *, since: datetime, enough: int) -> int:
        asked = {
            "scheduler_id": of.scheduler_id,
            "task_type": of.task.type,
            "task_id": of.task.id,
            "since": since,
            "enough": enough,
        }
        return self._connection.scalar(_COUNT, asked) or 0

    def state_of(self, execution_id: int) -> State | None:
        if execution_id not in self._states:
            found = self._connection.scalar(_STATE, {"probe": execution_id})
            self._states[execution_id] = State(found) if found in _STATES else None
        return self._states[execution_id]


def rule_on_retries(
    connection: Connection, dialect: Dialect, ends: Sequence[AttemptEnd], *, now: datetime
) -> list[Ruled]:
    """Rule on the ends of attempts, whose executions are locked, and note what was granted.

    One read and one write of each kind of limit for the whole batch; nothing where none is asked.
    """
    queues, tasks = queues_asked(ends), tasks_asked(ends)
    if not queues and not tasks:
        return [Ruled(verdict=end.verdict) for end in ends]
    budgets = BUDGETS.lock(connection, queues, now)
    breakers = BREAKERS.lock(connection, tasks, now)
    judge = RetryJudge(ends, budgets=budgets, breakers=breakers, evidence=SqlEvidence(connection))
    ruled = [judge.rule(end, now=now) for end in ends]
    BUDGETS.write(connection, dialect, judge.budgets, budgets)
    BREAKERS.write(connection, dialect, judge.breakers, breakers)
    return ruled


class SpreadStarts:
    """The starts of a batch: what may start now, and what is *deferred*.

    One read and one write of budgets for the whole batch; nothing where no retry was held up.
    """

    def __init__(
        self,
        connection: Connection,
        started: Sequence[Change],
        catch_up: CatchUp | None,
        now: datetime,
    ) -> None:
        self._connection = connection
        self._now = now
        self._locked: list[Budget] = []
        self._held_up = HeldUpRetries(catch_up, [before for before, _ in started], now=now)
        waiting: dict[int, Execution] = {}
        if self._held_up:
            self._locked = BUDGETS.lock(connection, self._held_up.queues, now)
            waiting = self._held_up.judge(self._locked)
        self.started = [change for change in started if change[0].id not in waiting]
        self.deferred = [
            (before, waiting[before.id]) for before, _ in started if before.id in waiting
        ]
        self._waiting = waiting

    def answer_of(self, answer: StartAnswer) -> StartAnswer:
        """Give what is answered now in the place of a start."""
        if not isinstance(answer, Execution) or answer.id not in self._waiting:
            return answer
        return Deferred(execution=self._waiting[answer.id], at=self._now)

    def keep(self, dialect: Dialect, *, busy: Collection[int]) -> None:
        """Write what was granted, but to those that are *busy*."""
        if self._held_up:
            self._held_up.give_back(busy)
            BUDGETS.write(self._connection, dialect, self._held_up.budgets, self._locked)


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
