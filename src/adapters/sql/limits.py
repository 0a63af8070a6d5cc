"""Limits of retries: judged with the ends and starts of a batch, shown, and forgotten."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec
import sqlalchemy as sa

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import (
    LATE_RUNS,
    AttemptEnd,
    CatchUp,
    Limited,
    RetryJudge,
    claimed_late,
    queues_asked,
    tasks_asked,
    with_places,
)
from cronhare.domain.retries.limits import Breaker, Budget, BudgetPolicy, as_asked
from cronhare.ports.attempts import Deferred

from .database import Store, repeatable
from .dialect import dialect_of
from .tables.schedule_columns import NUMBER_COLUMNS
from .tables.tables import FOUND_BY_KEY, breakers, budgets, executions, schedulers
from .tables.types import BrokenRow, OwnTable, duration, milliseconds, moment_of
from .writing import Change

L = TypeVar("L", Budget, Breaker)

_decode: Final = msgspec.json.Decoder(list[tuple[datetime, int]]).decode

#: Columns of limits that have other names than their fields.
_COLUMNS: Final = {
    "name": "task_name",
    "window": "window_ms",
    "grants": "granted",
    "granted_at": "last_at",
}


def _values(limit: Budget | Breaker) -> dict[str, Any]:
    fields = attrs.asdict(limit, recurse=False)
    return {_COLUMNS.get(name, name): _written(value) for name, value in fields.items()}


def _written(value: object) -> object:
    match value:
        case timedelta():
            return milliseconds(value)
        case tuple():
            return msgspec.json.encode(value).decode()
    return value


class LimitTable(Generic[L]):
    """The rows of one kind of limit, which are named by their only key.

    Its numbers in time are JSON, in the field *counts*.
    """

    def __init__(self, table: sa.Table, kind: type[L], *, counts: str) -> None:
        [self.key] = table.primary_key
        self.table = table
        self.own = OwnTable(table)
        self._kind: type[L] = kind
        self._counts = counts
        self._lock = (
            sa.select(table)
            .where(self.key.in_(sa.bindparam("keys", expanding=True)))
            .order_by(self.key)
            .with_for_update()
            .with_hint(table, FOUND_BY_KEY, "mysql")
        )
        others = {one.name: sa.bindparam(one.name, type_=one.type) for one in table.c}
        del others[self.key.name]
        self._update = sa.update(table).where(self.key == sa.bindparam("of_key")).values(others)
        self._insert = sa.insert(table)

    def lock(self, connection: sa.Connection, keys: Sequence[str]) -> list[L]:
        """Read limits, and lock them until the transaction's end."""
        return self.readable(connection.execute(self._lock, {"keys": keys}) if keys else ())

    def readable(self, rows: Iterable[Any]) -> list[L]:
        """Read those that fit, and log the others."""
        found = []
        for row in rows:
            try:
                found.append(self._read(row))
            except BrokenRow as broken:
                broken.tell()
        return found

    def _read(self, row: Any) -> L:  # noqa: ANN401 - a row
        own, names = self.own.read(row), attrs.fields_dict(self._kind)
        said = {name: getattr(own, _COLUMNS.get(name, name)) for name in names}
        try:
            said[self._counts] = tuple(_decode(said[self._counts]))
            said["window"] = duration(said["window"])
        except (msgspec.DecodeError, OverflowError) as error:
            raise BrokenRow(self.own, row, f"{self._counts}: {error}") from error
        return self._kind(**said)

    def write(self, connection: sa.Connection, after: Sequence[L], before: Sequence[L]) -> None:
        """Write what has changed of limits that are locked, and insert new ones."""
        known = {self._name(limit): limit for limit in before}
        changed = [x for x in after if known.get(self._name(x), x) != x]
        new = [_values(x) for x in after if self._name(x) not in known]
        if changed:
            rows = [{"of_key": self._name(x), **_values(x)} for x in changed]
            dialect_of(connection).update_many(connection, self._update, rows)
        if new:  # of two that insert the same row the later one is repeated, and finds it
            connection.execute(self._insert, new)

    def _name(self, limit: L) -> str:
        name: str = getattr(limit, self.key.name)
        return name


BUDGETS: Final = LimitTable(budgets, Budget, counts="grants")
BREAKERS: Final = LimitTable(breakers, Breaker, counts="failures")

_asked = schedulers.alias("asked")
_same_task = sa.and_(
    *(
        schedulers.c[name].is_not_distinct_from(_asked.c[name])
        for name in (*NUMBER_COLUMNS, "topic")
    )
)
# Each schedule of the task is one look into the index (scheduler_id, finished_at). The state is
# compared in a way that no index of states serves: that would find all that ever succeeded.
_successes: Final = (
    sa.select(executions.c.id)
    .select_from(_asked)
    .join(schedulers, _same_task)
    .join(executions, executions.c.scheduler_id == schedulers.c.id)
    .where(
        _asked.c.id == sa.bindparam("scheduler_id"),
        executions.c.finished_at >= moment_of("since"),
        sa.func.coalesce(executions.c.state, "") == State.SUCCEEDED.value,
        executions.c.task_type == sa.bindparam("task_type"),
        executions.c.task_id == sa.bindparam("task_id"),
    )
    .limit(sa.bindparam("enough"))
    .subquery()
)
_COUNT: Final[sa.Select[Any]] = sa.select(sa.func.count()).select_from(_successes)
_STATE: Final = sa.select(executions.c.state).where(executions.c.id == sa.bindparam("probe"))


@attrs.define
class SqlEvidence:
    """Satisfies `Evidence`, within one transaction."""

    _connection: sa.Connection
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
            self._states[execution_id] = State(found) if found else None
        return self._states[execution_id]


def rule_on_retries(
    connection: sa.Connection, ends: Sequence[AttemptEnd], *, now: datetime
) -> list[Limited]:
    """Rule on the ends of attempts, whose executions are locked, and note what was granted.

    One read and one write of each kind of limit for the whole batch; nothing where none is asked.
    """
    queues, tasks = queues_asked(ends), tasks_asked(ends)
    if not queues and not tasks:
        return [Limited(end.verdict) for end in ends]
    budgets = BUDGETS.lock(connection, queues)
    breakers = BREAKERS.lock(connection, tasks)
    judge = RetryJudge(ends, budgets=budgets, breakers=breakers, evidence=SqlEvidence(connection))
    ruled = [judge.rule(end, now=now) for end in ends]
    BUDGETS.write(connection, judge.budgets, budgets)
    BREAKERS.write(connection, judge.breakers, breakers)
    return ruled


def spread_late(
    connection: sa.Connection,
    claimed: Sequence[Execution],
    policy: BudgetPolicy | None,
    now: datetime,
) -> Sequence[Execution]:
    """Give claims that are late their places; the plans of their schedules are locked."""
    if policy is None or not (late := claimed_late(claimed)):
        return claimed
    locked = BUDGETS.lock(connection, [LATE_RUNS])
    budget = as_asked(LATE_RUNS, next(iter(locked), None), policy, now=now)
    budget, placed = with_places(late, budget, now=now)
    BUDGETS.write(connection, [budget], locked)
    return [placed.get((one.scheduler_id, one.key), one) for one in claimed]


class SpreadStarts:
    """The starts of a batch: what may start now, and what is *deferred*.

    One read and one write of budgets for the whole batch; nothing where no retry was held up.
    """

    def __init__(
        self,
        connection: sa.Connection,
        started: Sequence[Change],
        catch_up: CatchUp | None,
        now: datetime,
    ) -> None:
        self._connection = connection
        self._now = now
        self._catch_up = catch_up
        waiting: dict[int, Execution] = {}
        self._held_up: Sequence[Execution] = ()
        if catch_up is not None:
            self._held_up = catch_up.held_up([before for before, _ in started])
        if catch_up is not None and self._held_up:
            queues = sorted({catch_up.key_of(one) for one in self._held_up})
            self._locked = BUDGETS.lock(connection, queues)
            self._budgets, waiting = catch_up.spread(self._held_up, self._locked, now=now)
        self.started = [change for change in started if change[0].id not in waiting]
        self.deferred = [
            (before, waiting[before.id]) for before, _ in started if before.id in waiting
        ]
        #: What is answered in the place of a start.
        self.instead = {id_: Deferred(execution=one, at=now) for id_, one in waiting.items()}

    def keep(self, *, busy: Collection[int]) -> None:
        """Write what was granted; those that are *busy* do not start, and ask again."""
        if not self._held_up or self._catch_up is None:
            return
        after = self._budgets
        for one in self._held_up:
            if one.id in busy:
                key = self._catch_up.key_of(one)
                after[key] = after[key].without(self._now)
        kept = [after[queue] for queue in sorted(after)]
        BUDGETS.write(self._connection, kept, self._locked)


class SqlLimitStore(Store):
    """Satisfies `LimitStorePort`. What has a method here is one transaction."""

    @repeatable
    def budgets(self, *, limit: int) -> Sequence[Budget]:
        return [one for one in self._list(BUDGETS, limit) if one.queue != LATE_RUNS]

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
            gone = sa.delete(BREAKERS.table).where(BREAKERS.key == task)
            return connection.execute(gone).rowcount > 0

    def _list(self, of: LimitTable[L], limit: int) -> list[L]:
        with self._database.read(f"listing {of.table.name}") as connection:
            rows = connection.execute(sa.select(of.table).order_by(of.key).limit(limit)).all()
        return of.readable(rows)

    def _find(self, of: LimitTable[L], key: str) -> L | None:
        with self._database.read(f"looking into {of.table.name}") as connection:
            rows = connection.execute(sa.select(of.table).where(of.key == key)).all()
        return next(iter(of.readable(rows)), None)
