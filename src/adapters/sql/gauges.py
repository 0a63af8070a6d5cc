"""What waits, what ran last, and how much there is: what page, doctor, alerts and metrics ask.

The cost of counting what has not ended grows with that. All else is answered by an index alone,
however long the history is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from cronhare.domain.cron.timeline import EPOCH
from cronhare.domain.events import judging as system_alerts
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.ports.inspection import OVERDUE_AFTER, LastClaim, Late, Waiting
from cronhare.ports.records import Coming, Counts, QueueLoad, Run

from .database import Store, StorePart, repeatable
from .tables.executions import (
    BY_IDS,
    batches,
    display_name,
    find_executions,
    in_states,
    is_of_due_instant,
)
from .tables.schedules import IS_USERS, STAMP
from .tables.tables import IDS, alerts, executions, failed_tasks, plans, schedulers
from .tables.types import OwnTable, moment_of

#: So many waiting runs are counted for an alert: more make no other one.
MOST_COUNTED: Final = 10_000

#: The newest claim is looked for among so many executions: others of them may be manual runs.
NEWEST: Final = 1_000

#: So many schedules are asked for in one statement; SQLite takes 500 parts of a UNION.
_AT_ONCE, _PARTS_AT_ONCE = 1_000, 50

_EXECUTION: Final = OwnTable(executions, state=State)
_LOAD: Final = OwnTable(executions, state=State, executions=int, oldest_due_at=datetime | None)
_RUN: Final = executions.c
_ROW: Final = schedulers.c
_FAILURE: Final = failed_tasks.c
_BEFORE: Final = moment_of("before")
_MOST: Final[sa.BindParameter[int]] = sa.bindparam("most")
_HAS_ENDED: Final = _RUN.finished_at.is_not(None)


# What waits, in which queue, since when


#: A replay keeps the time of the first claim; its own is in the archive alone.
_REPLAYED_AT: Final = (
    sa.select(sa.func.max(_FAILURE.resolved_at))
    .where(_FAILURE.execution_id == _RUN.id)
    .scalar_subquery()
)
_CLAIMED_AT: Final = sa.case(
    (_RUN.attempt > 1, sa.func.coalesce(_REPLAYED_AT, _RUN.executed_at)), else_=_RUN.executed_at
)


def _from_its_time(own: sa.ColumnElement[datetime]) -> sa.ColumnElement[datetime]:
    """Give a time, or when the attempt may begin if that is later, as after a replay."""
    return sa.case((_RUN.next_attempt_at > own, _RUN.next_attempt_at), else_=own)


#: Since when a run that has not begun might have, by its state.
_SINCE: Final = {
    State.CLAIMED: _from_its_time(_CLAIMED_AT),
    State.PUBLISHED: _from_its_time(_RUN.published_at),
    State.RETRYING: _RUN.next_attempt_at,
}
_WAITING: Final[Mapping[State, sa.Select[Any]]] = {
    state: sa.select(_RUN.id, _RUN.queue, since.label("since"))
    .where(
        _RUN.state == state.value,
        since < _BEFORE,
        _RUN.queue.not_in(sa.bindparam("served", expanding=True)),
    )
    .order_by(_RUN.check_at)  # by the index, whatever its statistics say of a state
    .limit(_MOST)
    for state, since in _SINCE.items()
}


def _by_queue(found: sa.Select[Any]) -> sa.Select[Any]:
    each = found.subquery().c
    signs = sa.func.count(), sa.func.min(each.since), sa.func.min(each.id)
    return sa.select(each.queue, *signs).group_by(each.queue).order_by(each.queue)


_WAITING_BY_QUEUE: Final = {state: _by_queue(found) for state, found in _WAITING.items()}
_LOADS: Final[sa.Select[Any]] = (
    sa.select(
        _RUN.queue,
        _RUN.state,
        sa.func.count().label("executions"),
        sa.func.min(_RUN.due_at).label("oldest_due_at"),
    )
    .where(in_states(UNFINISHED))
    .group_by(_RUN.queue, _RUN.state)
)


def loads(connection: sa.Connection) -> Sequence[QueueLoad]:
    rows = _LOAD.readable(connection.execute(_LOADS))
    return [QueueLoad(**msgspec.structs.asdict(row)) for row in rows]


def outstanding(
    connection: sa.Connection, now: datetime, unfinished: Sequence[QueueLoad]
) -> Iterator[Waiting]:
    """Count in each queue what has waited for longer than the doctor allows."""
    running = {load.queue: load.executions for load in unfinished if load.state is State.RUNNING}
    for state in _SINCE:
        found = _waiting(connection, state, now - OVERDUE_AFTER, most=LARGEST_ID)
        for queue, signs in found.items():
            yield Waiting(
                queue=queue,
                runs=signs.runs,
                since=signs.since,
                sent=state is not State.CLAIMED,
                running=running.get(queue, 0),
            )


def _waiting(
    connection: sa.Connection,
    state: State,
    before: datetime,
    *,
    served: Collection[str] = (),
    most: int = MOST_COUNTED,
) -> Mapping[str, system_alerts.QueueSigns]:
    asked = {"before": before, "served": sorted(served), "most": most}
    return {
        queue: system_alerts.QueueSigns(runs=runs, since=since, execution=first)
        for queue, runs, since, first in connection.execute(_WAITING_BY_QUEUE[state], asked)
    }


class SystemSignsPart(StorePart):
    """The part of `AlertStorePort` that reads what waits."""

    @repeatable
    def system_signs(self, *, now: datetime, served: Collection[str]) -> system_alerts.SystemSigns:
        before = now - system_alerts.ALERTED_AFTER
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
    sa.select(plans.c.scheduler_id, _ROW.name, plans.c.next_due_at)
    .select_from(plans.outerjoin(schedulers, _ROW.id == plans.c.scheduler_id))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(_MOST)
)
#: Without schedules that cannot be planned: they are reported as such (see `cursor_after`).
_OVERDUE: Final = _PLANNED.where(plans.c.next_due_at <= _BEFORE, plans.c.problem.is_(None))
_BETWEEN: Final = (plans.c.next_due_at >= moment_of("since"), plans.c.next_due_at < _BEFORE)
_COMING: Final = _PLANNED.where(*_BETWEEN, IS_USERS)
#: Without a join, so that it is read from the index alone.
_COUNTS: Final = (
    sa.select(plans.c.next_due_at, sa.func.count()).where(*_BETWEEN).group_by(plans.c.next_due_at)
)


def overdue(connection: sa.Connection, now: datetime, *, most: int = LARGEST_ID) -> Sequence[Late]:
    """List the schedules that are due and could be claimed, also the system's own."""
    return [
        Late(display_name(name, id_), due_at)
        for id_, name, due_at in connection.execute(_OVERDUE, {"before": now, "most": most})
    ]


# What ran last


_newest: Final = (
    sa.select(_RUN.id, _RUN.execution_key, _RUN.executed_at, _RUN.container_id)
    .order_by(_RUN.id.desc())
    .limit(NEWEST)
    .subquery()
)
_CLAIMS: Final[sa.Select[Any]] = (
    sa.select(_newest.c.executed_at, _newest.c.container_id)
    .where(is_of_due_instant(_newest.c.execution_key))
    .order_by(_newest.c.id.desc())
    .limit(1)
)


def last_of_schedule(
    column: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool], order: sa.ColumnElement[Any]
) -> sa.ScalarSelect[Any]:
    """Take a column of a schedule's last run, by the index (scheduler_id, finished_at)."""
    ours = sa.select(column).where(_RUN.scheduler_id == _ROW.id, *conditions)
    return ours.order_by(order.desc(), _RUN.id.desc()).limit(1).scalar_subquery()


_RAN: Final = _RUN.state != State.SKIPPED.value
_LAST_RUNS: Final[sa.Select[Any]] = sa.select(
    sa.func.coalesce(
        last_of_schedule(_RUN.id, _RAN, ~_HAS_ENDED, order=_RUN.id),
        last_of_schedule(_RUN.id, _RAN, _HAS_ENDED, order=_RUN.finished_at),
    )
).where(_ROW.id.in_(IDS))


def last_claim(connection: sa.Connection) -> LastClaim | None:
    for row in _EXECUTION.readable(connection.execute(_CLAIMS)):
        return LastClaim(row.executed_at, row.container_id)
    return None


def last_runs(connection: sa.Connection, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
    found = dict[int, Execution]()
    for ids in batches(sorted(scheduler_ids), _AT_ONCE):
        newest = filter(None, connection.scalars(_LAST_RUNS, {"ids": ids}))
        for execution in find_executions(connection, BY_IDS, [*newest]).values():
            found[execution.scheduler_id] = execution
    return found


@lru_cache
def _recent(schedules: int) -> sa.Select[Any]:
    """Ask for two ranges of the index (scheduler_id, finished_at) of each schedule."""
    due_at = sa.func.coalesce(_RUN.due_at, _RUN.executed_at).label("due_at")
    others = _RUN.scheduler_id, _RUN.id, _RUN.state, _RUN.started_at, _RUN.finished_at, _RUN.attempt
    cells, parts = sa.select(*others, due_at), []
    for place in range(schedules):
        ours = cells.where(_RUN.scheduler_id == sa.bindparam(f"id_{place}"))
        ended = ours.where(_HAS_ENDED).order_by(_RUN.finished_at.desc())
        is_open = ours.where(~_HAS_ENDED).order_by(_RUN.id.desc())
        parts += [part.limit(_MOST).subquery() for part in (ended, is_open)]
    return sa.union_all(*(sa.select(part) for part in parts))  # type: ignore[return-value]


def _by_end(run: Run) -> tuple[bool, datetime, int]:
    return run.finished_at is None, run.finished_at or EPOCH, run.id


# How much there is


def _up_to_most(statement: sa.Select[Any]) -> sa.ScalarSelect[int]:
    return (
        sa.select(sa.func.count()).select_from(statement.limit(_MOST).subquery()).scalar_subquery()
    )


def _of_state(state: State) -> sa.ScalarSelect[int]:
    return _up_to_most(sa.select(_RUN.id).where(_RUN.state == state.value))


_COUNTED: Final = sa.select(
    _of_state(State.RUNNING).label("running"),
    _of_state(State.RETRYING).label("retrying"),
    _up_to_most(sa.select(_FAILURE.id).where(_FAILURE.resolution.is_(None))).label("unresolved"),
    _up_to_most(sa.select(alerts.c.rule).where(alerts.c.cleared_at.is_(None))).label("alerts"),
)
_UNPLANNED: Final = sa.select(
    _up_to_most(
        sa.select(_ROW.id)
        .join_from(schedulers, plans, _ROW.id == plans.c.scheduler_id, isouter=True)
        .where(_ROW.status == 1, IS_USERS, STAMP.is_distinct_from(plans.c.planned_at))
    )
)


class SqlOverview(Store):
    """Satisfies `OverviewPort`."""

    @repeatable
    def recent(self, scheduler_ids: Collection[int], *, each: int) -> Mapping[int, Sequence[Run]]:
        found = defaultdict[int, list[Run]](list)
        with self._database.read("looking for recent runs") as connection:
            for ids in batches([*scheduler_ids], _PARTS_AT_ONCE):
                # Nothing has 0: a statement of one length is compiled once.
                width = 1 if len(ids) == 1 else _PARTS_AT_ONCE
                padded = chain(ids, repeat(0, width - len(ids)))
                asked = {f"id_{place}": id_ for place, id_ in enumerate(padded)}
                rows = connection.execute(_recent(width), {**asked, "most": each})
                for row in map(msgspec.structs.asdict, _EXECUTION.readable(rows)):
                    found[row.pop("scheduler_id")].append(Run(**row))
        return {id_: sorted(runs, key=_by_end)[-each:] for id_, runs in found.items()}

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
        with self._database.read("counting what no scheduler has planned") as connection:
            return connection.scalar(_UNPLANNED, {"most": most}) or 0

    @repeatable
    def waiting(self, since: datetime, *, limit: int) -> Sequence[int]:
        asked = {"before": since, "served": (), "most": limit}
        with self._database.read("looking for what has not begun") as connection:
            states = State.CLAIMED, State.PUBLISHED
            found = [id_ for state in states for id_ in connection.scalars(_WAITING[state], asked)]
        return found[:limit]

    @repeatable
    def count(self, *, most: int) -> Counts:
        with self._database.read("counting what people look at") as connection:
            return Counts(**connection.execute(_COUNTED, {"most": most}).one()._asdict())
