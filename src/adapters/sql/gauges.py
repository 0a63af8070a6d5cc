"""What waits, what ran last, and how much there is: what page, doctor, alerts and metrics ask.

Each question is one statement here, whoever asks it. Only what counts all that has not ended grows
with that; the others are answered by an index alone, however long the history is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final

import attrs
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Engine,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    union_all,
)

from cronhare.domain.diagnosis import waiting
from cronhare.domain.diagnosis.overdue import LastClaim, Late
from cronhare.domain.diagnosis.quarantine import Quarantined
from cronhare.domain.execution import REPLAYABLE, UNFINISHED, Execution, State
from cronhare.domain.lifecycle import system_alerts
from cronhare.domain.lifecycle.statistics import ScheduleResult, ScheduleResults
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.retries.retry import AWAITS_TASK
from cronhare.domain.schedules.keys import DUE
from cronhare.domain.schedules.schedule import CLEANUP_NAME
from cronhare.ports.records import Coming, QueueLoad, Run
from cronhare.ports.system import ClockPort

from .database import Database, StorePart, repeatable
from .rows.executions import BY_IDS, batches, display_name, find_executions
from .rows.own import OwnTable
from .rows.schedules import IS_ON, IS_USERS, STAMP
from .schema.tables import alerts, executions, failed_tasks, outbox, plans, schedulers
from .schema.types import UtcDateTime

#: So many of what waits are counted for an alert: more make no other one.
MOST_COUNTED: Final = 10_000

#: A claim is looked for among so many of the newest executions: the rest may be manual runs.
NEWEST: Final = 1_000

#: So many schedules are asked for in one statement; SQLite takes 500 parts of a UNION.
_AT_ONCE, _PARTS_AT_ONCE = 1_000, 50

_EXECUTION: Final = OwnTable(executions, state=State, runs=int)
_RUN: Final = executions.c
_ROW: Final = schedulers.c
_FAILURE: Final = failed_tasks.c
_BEFORE: Final = bindparam("before", type_=UtcDateTime)
_MOST: Final[BindParameter[int]] = bindparam("most")
_AWAITS_A_PERSON: Final = _FAILURE.resolution.is_(None)
_HAS_ENDED: Final = _RUN.finished_at.is_not(None)


# What waits, in which queue, since when


#: A replay keeps the time of the first claim; its own is in the archive alone.
_REPLAYED_AT: Final = (
    select(func.max(_FAILURE.resolved_at)).where(_FAILURE.execution_id == _RUN.id).scalar_subquery()
)
_CLAIMED_AT: Final = case(
    (_RUN.attempt > 1, func.coalesce(_REPLAYED_AT, _RUN.executed_at)), else_=_RUN.executed_at
)


def _from_its_time(own: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """Give a time, or when the attempt may begin if that is later, as after a replay."""
    begins = _RUN.next_attempt_at
    return case((and_(begins.is_not(None), begins > own), begins), else_=own)


#: Since when a run might have begun that has not, by its state.
_SINCE: Final = {
    State.CLAIMED: _from_its_time(_CLAIMED_AT),
    State.PUBLISHED: _from_its_time(_RUN.published_at),
    State.RETRYING: _RUN.next_attempt_at,
}
_WAITING: Final[Mapping[State, Select[Any]]] = {
    state: select(_RUN.id, _RUN.queue, since.label("since"))
    .where(
        _RUN.state == state.value,
        since < _BEFORE,
        _RUN.queue.not_in(bindparam("served", expanding=True)),
    )
    .order_by(_RUN.check_at)  # by the index, whatever its statistics say of a state
    .limit(_MOST)
    for state, since in _SINCE.items()
}


def _by_queue(found: Select[Any]) -> Select[Any]:
    each = found.subquery().c
    signs = func.count(), func.min(each.since), func.min(each.id)
    return select(each.queue, *signs).group_by(each.queue).order_by(each.queue)


_FIRST_DUE: Final = func.min(_RUN.due_at).label("due_at")
_WAITING_BY_QUEUE: Final = {state: _by_queue(found) for state, found in _WAITING.items()}
_LOADS: Final[Select[Any]] = (
    select(_RUN.queue, _RUN.state, func.count().label("runs"), _FIRST_DUE)
    .where(_RUN.state.in_(sorted(state.value for state in UNFINISHED)))
    .group_by(_RUN.queue, _RUN.state)
)


def loads(connection: Connection) -> Sequence[QueueLoad]:
    """Count what has not ended by queue and state."""
    return [
        QueueLoad(queue=row.queue, state=row.state, executions=row.runs, oldest_due_at=row.due_at)
        for row in _EXECUTION.readable(connection.execute(_LOADS))
    ]


def outstanding(
    connection: Connection, now: datetime, unfinished: Sequence[QueueLoad]
) -> Iterator[waiting.Waiting]:
    """Count in each queue what has waited for longer than the doctor allows."""
    running = {load.queue: load.executions for load in unfinished if load.state is State.RUNNING}
    before = now - waiting.OVERDUE_AFTER
    for state in _SINCE:
        found = _waiting(connection, state, before, most=LARGEST_ID)
        for queue, signs in found.items():
            yield waiting.Waiting(
                queue=queue,
                runs=signs.runs,
                since=signs.since,
                sent=state is not State.CLAIMED,
                running=running.get(queue, 0),
            )


def _waiting(
    connection: Connection,
    state: State,
    before: datetime,
    *,
    served: Collection[str] = (),
    most: int = MOST_COUNTED,
) -> Mapping[str, system_alerts.QueueSigns]:
    asked = {"before": before, "served": sorted(served), "most": most}
    return {
        str(queue): system_alerts.QueueSigns(runs=runs, since=since, execution=first)
        for queue, runs, since, first in connection.execute(_WAITING_BY_QUEUE[state], asked)
    }


def awaited(connection: Connection) -> int:
    """Count the runs that wait for a worker that has their task."""
    is_one = _RUN.last_error.startswith(AWAITS_TASK, autoescape=True)
    found = select(func.count()).where(_RUN.state == State.RETRYING.value, is_one)
    return connection.scalar(found) or 0


class SystemSignsPart(StorePart):
    """The part of `AlertStorePort` that reads what waits."""

    @repeatable
    def system_signs(self, *, now: datetime, served: Collection[str]) -> system_alerts.SystemSigns:
        before = now - system_alerts.OVERDUE_AFTER
        with self._database.read("looking for what waits") as connection:
            late = overdue(connection, before, most=1)
            return system_alerts.SystemSigns(
                earliest_due=late[0].since if late else None,
                unsent=_waiting(connection, State.CLAIMED, before),
                unserved=_waiting(connection, State.PUBLISHED, before, served=served),
            )


# What is due


#: From the plans to their schedules, and never the other way round.
_PLANNED: Final = (
    select(plans.c.scheduler_id, _ROW.name, plans.c.next_due_at)
    .select_from(plans.outerjoin(schedulers, _ROW.id == plans.c.scheduler_id))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(_MOST)
)
#: Without schedules that cannot be planned: they are reported as such, and may stay due for another
#: replica (see `cursor_after`).
_OVERDUE: Final = _PLANNED.where(plans.c.next_due_at <= _BEFORE, plans.c.problem.is_(None))
_BETWEEN: Final = (
    plans.c.next_due_at >= bindparam("since", type_=UtcDateTime),
    plans.c.next_due_at < _BEFORE,
)
_COMING: Final = _PLANNED.where(*_BETWEEN, IS_USERS)
#: Without a join, so that it is read from the index alone.
_COUNTS: Final = (
    select(plans.c.next_due_at, func.count()).where(*_BETWEEN).group_by(plans.c.next_due_at)
)


def overdue(connection: Connection, now: datetime, *, most: int = LARGEST_ID) -> Sequence[Late]:
    """List the schedules that are due and could be claimed, also the system's own."""
    return [
        Late(display_name(name, id_), due_at)
        for id_, name, due_at in connection.execute(_OVERDUE, {"before": now, "most": most})
    ]


def earliest(connection: Connection) -> datetime | None:
    """Find the earliest of all due instants."""
    found: datetime | None = connection.scalar(select(func.min(plans.c.next_due_at)))
    return found


# What ran last


_newest: Final = (
    select(_RUN.id, _RUN.execution_key, _RUN.executed_at, _RUN.container_id)
    .order_by(_RUN.id.desc())
    .limit(NEWEST)
    .subquery()
)
_CLAIMS: Final[Select[Any]] = (
    select(_newest.c.executed_at, _newest.c.container_id)
    .where(or_(*(_newest.c.execution_key.like(f"{kind}%") for kind in DUE)))
    .order_by(_newest.c.id.desc())
    .limit(1)
)


def _last(
    column: ColumnElement[Any], *conditions: ColumnElement[bool], order: ColumnElement[Any]
) -> ScalarSelect[Any]:
    """Take a column of a schedule's last run, by the index (scheduler_id, finished_at)."""
    ours = select(column).where(_RUN.scheduler_id == _ROW.id, *conditions)
    return ours.order_by(order.desc(), _RUN.id.desc()).limit(1).scalar_subquery()


def _last_end(*states: State) -> ScalarSelect[Any]:
    is_one = _RUN.state.in_([state.value for state in states])
    return _last(_RUN.finished_at, is_one, _HAS_ENDED, order=_RUN.finished_at)


_RAN: Final = _RUN.state != State.SKIPPED.value
_LAST_RUNS: Final[Select[Any]] = select(
    func.coalesce(
        _last(_RUN.id, _RAN, _RUN.finished_at.is_(None), order=_RUN.id),
        _last(_RUN.id, _RAN, _HAS_ENDED, order=_RUN.finished_at),
    )
).where(_ROW.id.in_(bindparam("ids", expanding=True)))

_HAS_NO_TIMES: Final = and_(
    func.coalesce(_ROW.schedule, "") == "", _ROW.date_time.is_(None), _ROW.every_ms.is_(None)
)
_MAY_RUN_AGAIN: Final = (
    or_(plans.c.next_due_at.is_not(None), and_(IS_ON, _HAS_NO_TIMES)),
    func.coalesce(_ROW.name, "") != CLEANUP_NAME,
)
_PLANS: Final = plans.join(schedulers, _ROW.id == plans.c.scheduler_id)
_RESULTS: Final[Select[Any]] = (
    select(_ROW.id, _ROW.name, _last_end(State.SUCCEEDED), _last_end(*sorted(REPLAYABLE)))
    .select_from(_PLANS)
    .where(*_MAY_RUN_AGAIN)
    .order_by(_ROW.id)
    .limit(_MOST)
)


def last_claim(connection: Connection) -> LastClaim | None:
    """Find the newest claim of a due instant."""
    for row in _EXECUTION.readable(connection.execute(_CLAIMS)):
        return LastClaim(row.executed_at, row.container_id)
    return None


def last_runs(connection: Connection, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
    """Find the newest execution of each schedule that was not skipped."""
    found = dict[int, Execution]()
    for ids in batches(sorted(scheduler_ids), _AT_ONCE):
        newest = connection.scalars(_LAST_RUNS, {"ids": ids}).all()
        asked = [id_ for id_ in newest if id_ is not None]
        for execution in find_executions(connection, BY_IDS, asked).values():
            found[execution.scheduler_id] = execution
    return found


def last_results(connection: Connection, limit: int) -> ScheduleResults:
    """Tell how the runs of *limit* schedules that may run again last ended."""
    found = [
        ScheduleResult(schedule=display_name(name, id_), succeeded_at=good, failed_at=bad)
        for id_, name, good, bad in connection.execute(_RESULTS, {"most": limit})
    ]
    every = select(func.count()).select_from(_PLANS).where(*_MAY_RUN_AGAIN)
    known = connection.scalar(every) or 0
    return ScheduleResults(results=found, unread=max(known - len(found), 0))


@lru_cache
def _recent(schedules: int) -> Select[Any]:
    """Ask for two ranges of the index (scheduler_id, finished_at) of each schedule."""
    names = ("scheduler_id", "executed_at", *(field.name for field in attrs.fields(Run)))
    cells, parts = select(*(_RUN[name] for name in names)), []
    for place in range(schedules):
        ours = cells.where(_RUN.scheduler_id == bindparam(f"id_{place}"))
        ended = ours.where(_HAS_ENDED).order_by(_RUN.finished_at.desc())
        is_open = ours.where(_RUN.finished_at.is_(None)).order_by(_RUN.id.desc())
        parts += [part.limit(_MOST).subquery() for part in (ended, is_open)]
    return union_all(*(select(part) for part in parts))  # type: ignore[return-value]


def _in_order(row: Any) -> tuple[bool, datetime, int]:  # noqa: ANN401
    return row.finished_at is None, row.finished_at or row.executed_at, row.id


def _run(row: Any) -> Run:  # noqa: ANN401 - see `OwnTable.each`
    return Run(
        id=row.id,
        state=row.state,
        due_at=row.due_at or row.executed_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
    )


# How much there is


def _up_to_most(statement: Select[Any]) -> Select[Any]:
    return select(func.count()).select_from(statement.limit(_MOST).subquery())


_UNPLANNED: Final = _up_to_most(
    select(_ROW.id)
    .join_from(schedulers, plans, _ROW.id == plans.c.scheduler_id, isouter=True)
    .where(_ROW.status == 1, IS_USERS, STAMP.is_distinct_from(plans.c.planned_at))
)
_OF_STATE: Final = _up_to_most(select(_RUN.id).where(_RUN.state == bindparam("state")))
_UNRESOLVED: Final = _up_to_most(select(_FAILURE.id).where(_AWAITS_A_PERSON))
_ALERTS: Final = _up_to_most(select(alerts.c.rule).where(alerts.c.cleared_at.is_(None)))


def unresolved(connection: Connection) -> tuple[int, Quarantined]:
    """Count the failures that await a person, and what is quarantined."""
    by_kind = select(_FAILURE.kind, func.count()).where(_AWAITS_A_PERSON).group_by(_FAILURE.kind)
    counts = {str(kind): runs for kind, runs in connection.execute(by_kind)}
    newest = select(_FAILURE.kind).order_by(_FAILURE.id.desc()).limit(NEWEST).subquery()
    of_late = select(func.count()).where(newest.c.kind == State.QUARANTINED.value)
    return counts.get(State.FAILED, 0), Quarantined(
        unresolved=counts.get(State.QUARANTINED, 0), of_late=connection.scalar(of_late) or 0
    )


def spans(connection: Connection) -> Mapping[str, int]:
    """Tell how many rows tables have at most: the first and the last id are found at once."""
    found = {}
    for name, table in (("executions", executions), ("failures", failed_tasks), ("events", outbox)):
        edges = select(select(func.min(table.c.id)).scalar_subquery(), func.max(table.c.id))
        first, last = connection.execute(edges).one()
        found[name] = 0 if last is None else last - first + 1
    return found


class SqlOverview:
    """Satisfies `OverviewPort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def recent(self, scheduler_ids: Collection[int], *, each: int) -> Mapping[int, Sequence[Run]]:
        known = [id_ for id_ in scheduler_ids if 0 < id_ <= LARGEST_ID]
        found: dict[int, list[Any]] = {}
        with self._database.read("looking for recent runs") as connection:
            for ids in batches(known, _PARTS_AT_ONCE):
                # Nothing has 0: a statement of one length is compiled once.
                width = 1 if len(ids) == 1 else _PARTS_AT_ONCE
                padded = chain(ids, repeat(0, width - len(ids)))
                asked = {f"id_{place}": id_ for place, id_ in enumerate(padded)}
                rows = connection.execute(_recent(width), {**asked, "most": each})
                for row in _EXECUTION.readable(rows):
                    found.setdefault(row.scheduler_id, []).append(row)
        return {
            scheduler_id: [_run(row) for row in sorted(rows, key=_in_order)[-each:]]
            for scheduler_id, rows in found.items()
        }

    @repeatable
    def coming(self, since: datetime, until: datetime, *, limit: int) -> Sequence[Coming]:
        asked = {"since": since, "before": until, "most": limit}
        with self._database.read("looking for what is due next") as connection:
            rows = connection.execute(_COMING, asked)
            return [Coming(display_name(name, id_), due_at) for id_, name, due_at in rows]

    @repeatable
    def count_coming(self, since: datetime, until: datetime) -> Mapping[datetime, int]:
        with self._database.read("counting what is due next") as connection:
            rows = connection.execute(_COUNTS, {"since": since, "before": until})
            return {row[0]: row[1] for row in rows}

    @repeatable
    def count_unplanned(self, *, most: int) -> int:
        return self._count("counting what no scheduler has planned", _UNPLANNED, most=most)

    @repeatable
    def waiting(self, since: datetime, *, limit: int) -> Sequence[int]:
        asked = {"before": since, "served": (), "most": limit}
        with self._database.read("looking for what has not begun") as connection:
            states = State.CLAIMED, State.PUBLISHED
            found = [id_ for state in states for id_ in connection.scalars(_WAITING[state], asked)]
        return found[:limit]

    @repeatable
    def count(self, states: Collection[State], *, most: int) -> Mapping[State, int]:
        doing = "counting executions"
        return {
            state: self._count(doing, _OF_STATE, most=most, state=state.value) for state in states
        }

    @repeatable
    def count_unresolved(self, *, most: int) -> int:
        return self._count("counting failures", _UNRESOLVED, most=most)

    @repeatable
    def count_alerts(self, *, most: int) -> int:
        return self._count("counting alerts", _ALERTS, most=most)

    def _count(self, doing: str, statement: Select[Any], **asked: object) -> int:
        with self._database.read(doing) as connection:
            return connection.scalar(statement, asked) or 0
