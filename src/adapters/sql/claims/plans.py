"""Claims: of a batch of schedules in one transaction, and of a run that somebody asks for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Row,
    Select,
    bindparam,
    case,
    delete,
    func,
    select,
)

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle import claims
from cronhare.domain.lifecycle.claims import claim_run, skip
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.schedules.planning import (
    INSTANTS_AT_ONCE,
    Cursor,
    Plan,
    Planned,
    Planner,
    Unfinished,
    cursor_after,
    plan_or_problem,
)
from cronhare.domain.schedules.schedule import BrokenSchedule, OverlapPolicy, Schedule
from cronhare.ports.claims import Batch

from ..dialect import Dialect, TransactionRolledBack
from ..gates import gates_to_try, hold_back
from ..tables.executions import EXECUTION, executions_of, in_states, known_id
from ..tables.schedules import READ, read_idle, schedule_of
from ..tables.tables import IDS, executions, plans, schedulers
from .pages import Found, find_circumstances, keep_tallies, prolong

_IS_HELD = executions.c.state == State.HELD.value
_UNFINISHED = (
    select(
        executions.c.scheduler_id,
        func.min(case((_IS_HELD, None), else_=executions.c.id)).label("active"),
        func.min(case((_IS_HELD, executions.c.id))).label("waiting"),
        func.sum(case((_IS_HELD, 1), else_=0)).label("count"),
    )
    .where(
        executions.c.scheduler_id.in_(IDS),
        executions.c.finished_at.is_(None),  # for the index; old rows of others have no such time
        in_states(UNFINISHED),
    )
    .group_by(executions.c.scheduler_id)
)

_FORGET = delete(plans).where(plans.c.scheduler_id.in_(IDS))


def apply_plans(
    connection: Connection,
    dialect: Dialect,
    rows: Sequence[Row[Any]],
    *,
    now: datetime,
    node: str,
    planner: Planner,
    judge: str,
) -> Batch:
    """Plan each schedule, claim its runs, record its skips, and move its cursor.

    After very many instants it leaves the rest of the batch: see `Batch.looked`.
    """
    _forget(connection, [row.planned_id for row in rows if row.id is None])
    known = [(row, schedule_of(row)) for row in rows if row.id is not None]
    unfinished = find_unfinished(connection, [schedule for _, schedule in known])
    found = find_circumstances(connection, known)
    moved: list[tuple[Any, ...]] = []
    wanted: list[Execution] = []
    problems: list[tuple[str, str]] = []
    conditional: list[tuple[Schedule, Plan]] = []
    weight = left = 0
    for place, (row, schedule) in enumerate(known):
        if weight >= INSTANTS_AT_ONCE:
            left = len(known) - place
            break
        planned = _planned(row, schedule, unfinished, found)
        plan = plan_or_problem(planner, planned)
        weight += plan.weight
        if plan.problem is None:
            moved.append(_plan_row(row, cursor_after(planned, plan, now)))
        elif planned.edited or plan.problem != row.problem:
            moved.append(_plan_row(row, cursor_after(planned, plan, now), judge))
            problems.append((schedule.name, plan.problem))
        elif (cursor := cursor_after(planned, plan, now)).next_due != row.next_due_at:
            moved.append(_plan_row(row, cursor, judge))
        if isinstance(schedule, Schedule):
            wanted += [claim_run(schedule, run, now=now, node=node) for run in plan.runs]
            wanted += [
                skip(schedule, skipped, now=now, node=node)
                for skipped in plan.skips
                if skipped.prolongs is None
            ]
            if planned.circumstances is not None:
                conditional.append((schedule, plan))
    judged = hold_back(connection, wanted, [schedule for _, schedule in known])
    inserted = _insert(connection, dialect, judged)
    if moved:
        dialect.set_plans(connection, sorted(moved, key=itemgetter(0)))
    keep_tallies(connection, dialect, conditional, found)
    prolonged = prolong(connection, dialect, conditional, found, now=now)
    return Batch(
        looked=len(rows) - left,
        claimed=tuple(one for one in inserted if one.state is State.CLAIMED),
        held=sum(one.state is State.HELD for one in inserted),
        skipped=sum(one.missed for one in inserted) + prolonged,
        problems=tuple(problems),
        gates=gates_to_try(inserted),
    )


def _forget(connection: Connection, orphans: Sequence[int]) -> None:
    """Drop the plans of schedules that were deleted past the foreign keys."""
    if orphans:
        connection.execute(_FORGET, {"ids": orphans})


def find_unfinished(
    connection: Connection, schedules: Sequence[Schedule | BrokenSchedule]
) -> dict[int, Unfinished]:
    """Tell of the unfinished executions of schedules, where their overlap policies ask for it."""
    asking = [
        schedule.id
        for schedule in schedules
        if isinstance(schedule, Schedule) and schedule.overlap is not OverlapPolicy.ALLOW
    ]
    if not asking:
        return {}
    found = connection.execute(_UNFINISHED, {"ids": asking})
    return {
        row.scheduler_id: Unfinished(active=row.active, waiting=row.waiting, count=int(row[3]))
        for row in found
    }


def _planned(
    row: Row[Any],
    schedule: Schedule | BrokenSchedule,
    unfinished: dict[int, Unfinished],
    found: Mapping[int, Found],
) -> Planned:
    idle, next_due = None, row.next_due_at
    if not next_due:  # what is due is not idle
        idle = read_idle(row)
        next_due = None if idle else row.resume_at
    circumstances = found.get(schedule.id) if found else None
    return Planned(
        schedule=schedule,
        next_due=next_due,
        edited=not row.is_current,
        idle=idle,
        problem=row.problem,
        unfinished=unfinished.get(schedule.id),
        circumstances=circumstances.circumstances if circumstances else None,
    )


def _plan_row(row: Row[Any], cursor: Cursor, judge: str | None = None) -> tuple[Any, ...]:
    """Give the values of `PLAN_COLUMNS`; the schedule's time of change exactly as it was read."""
    return (
        row.id,
        cursor.next_due,
        row.stamp,
        cursor.problem,
        judge,
        cursor.resume_at if cursor.idle is None else cursor.idle.since,
        None if cursor.idle is None else cursor.idle.why.value,
    )


def _insert(
    connection: Connection, dialect: Dialect, wanted: Sequence[Execution]
) -> list[Execution]:
    """Insert in the same order everywhere, so that two replicas cannot deadlock."""
    if not wanted:
        return []
    ordered = sorted(wanted, key=lambda one: (one.scheduler_id, one.due_at, one.key))
    ids = dialect.insert_executions(connection, ordered)
    return [
        msgspec.structs.replace(one, id=id_) for one, id_ in zip(ordered, ids, strict=True) if id_
    ]


_BY_KEY = EXECUTION.where(
    executions.c.scheduler_id == bindparam("scheduler_id"),
    executions.c.execution_key == bindparam("key"),
)
_SCHEDULE: Select[Any] = select(*READ).where(schedulers.c.id == bindparam("scheduler_id"))
#: What others lock that claim runs of a schedule. Whoever plans it has its plan before its row.
_LOCKS = [
    select(column).where(column == bindparam("scheduler_id")).with_for_update()
    for column in (plans.c.scheduler_id, schedulers.c.id)
]


def find_by_key(connection: Connection, scheduler_id: int, key: str) -> Execution | None:
    """Find an execution by its unique key."""
    if not known_id(scheduler_id):
        return None
    rows = connection.execute(_BY_KEY, {"scheduler_id": scheduler_id, "key": key})
    return next(iter(executions_of(connection, rows)), None)


def claim_by_hand(
    connection: Connection,
    dialect: Dialect,
    scheduler_id: int,
    *,
    key: str,
    alone: bool = False,
    **asked: Any,  # noqa: ANN401 - see the domain's
) -> Execution:
    """Claim a run that no plan asked for. Its key is known to be free.

    What stays alive has to be *alone*, where that is asked for.

    Raises:
        NotToBeRun: see there.
    """
    schedule = _schedule(connection, scheduler_id)
    run = claims.claim_by_hand(schedule, scheduler_id, key=key, **asked)
    if alone and is_standalone(run.queue):
        for lock in _LOCKS:
            connection.execute(lock, {"scheduler_id": scheduler_id})
        if (meanwhile := find_by_key(connection, scheduler_id, key)) is not None:
            return meanwhile
        assert isinstance(schedule, Schedule), "a stand-in has no queue of its own"
        claims.refuse_beside(find_unfinished(connection, [schedule]).get(scheduler_id))
    [id_] = dialect.insert_executions(connection, [run])
    if not id_:
        raise TransactionRolledBack(f"{key} was claimed by somebody else in this very moment")
    return msgspec.structs.replace(run, id=id_)


def _schedule(connection: Connection, scheduler_id: int) -> Schedule | BrokenSchedule | None:
    row = connection.execute(_SCHEDULE, {"scheduler_id": known_id(scheduler_id)}).first()
    return None if row is None else schedule_of(row)
