"""Limits of retries: judged with the ends and starts of a batch, shown, and forgotten."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import attrs
from sqlalchemy import Connection, Engine, Select, and_, bindparam, delete, func, select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.catching_up import CatchUp, HeldUpRetries
from cronhare.domain.lifecycle.retry_limits import (
    AttemptEnd,
    RetryJudge,
    Ruled,
    queues_asked,
    tasks_asked,
)
from cronhare.domain.retries.breaker import Breaker
from cronhare.domain.retries.budget import Budget
from cronhare.domain.retries.limits import IDLE_FOR
from cronhare.domain.retries.redeliveries import KEPT_FOR
from cronhare.ports.attempts import Deferred, StartAnswer
from cronhare.ports.system import ClockPort

from ..database import Database, repeatable
from ..dialect import Dialect
from ..rows.changes import Change
from ..rows.schedule_columns import NUMBER_COLUMNS
from ..schema.tables import executions, holds, schedulers
from ..schema.types import UtcDateTime
from .table import BREAKERS, BUDGETS, LimitTable

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
