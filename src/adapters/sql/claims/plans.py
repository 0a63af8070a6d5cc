"""Planning and claiming a batch of schedules in one transaction, with the statements for it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    update,
)

from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution, State
from cronhare.domain.lifecycle.claims import claim_run, skip
from cronhare.domain.lifecycle.redelivery import (
    MANY_RESENDS,
    Graces,
    after_resend,
    expected_after_doubt,
    expected_anew_at,
    expected_soon,
)
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

from ..dialect import Dialect, PlanRow
from ..gates import gates_to_try, hold_back
from ..rows.executions import EXECUTION, is_in
from ..rows.schedules import READ, STAMP, read_idle, schedule_of
from ..schema.tables import by_id, executions, plans
from ..schema.types import UtcDateTime, named_rows
from .circumstances import Found, find_circumstances, keep_expiries, keep_tallies, prolong

_KEEP: Final = (
    update(executions)
    .where(executions.c.id == bindparam("row_id"))
    .values(topic=bindparam("its_topic"), no_listener=bindparam("unheard"))
)


def keep_topics(connection: Connection, dialect: Dialect, inserted: Iterable[Execution]) -> None:
    """Note the topics of new executions; where none has any nothing is written."""
    rows = [
        {"row_id": one.id, "its_topic": one.topic, "unheard": one.no_listener}
        for one in inserted
        if one.no_listener is not None
    ]
    if rows:
        dialect.update_many(connection, _KEEP, rows)


_IS_HELD = executions.c.state == State.HELD.value
_UNFINISHED = (
    select(
        executions.c.scheduler_id,
        func.min(case((_IS_HELD, None), else_=executions.c.id)).label("active"),
        func.min(case((_IS_HELD, executions.c.id))).label("waiting"),
        func.sum(case((_IS_HELD, 1), else_=0)).label("count"),
    )
    .where(
        executions.c.scheduler_id.in_(bindparam("ids", expanding=True)),
        executions.c.finished_at.is_(None),  # for the index; old rows of others have no such time
        executions.c.state.in_(sorted(state.value for state in UNFINISHED)),
    )
    .group_by(executions.c.scheduler_id)
)

_FORGET = delete(plans).where(plans.c.scheduler_id.in_(bindparam("ids", expanding=True)))


def select_schedules(planned: FromClause = plans) -> Select[Any]:
    """Begin a statement that selects schedules with their plans, as `apply_plans` takes them."""
    return select(
        *READ,
        STAMP.label("stamp"),
        planned.c.scheduler_id.label("planned_id"),
        planned.c.next_due_at,
        planned.c.resume_at,
        planned.c.problem,
        planned.c.idle,
        planned.c.paused_at.is_not(None).label("is_paused"),
        STAMP.is_not_distinct_from(planned.c.planned_at).label("is_current"),
    )


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
    moved: list[PlanRow] = []
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
    keep_topics(connection, dialect, inserted)
    if conditional:
        keep_expiries(connection, dialect, inserted)
    if moved:
        dialect.set_plans(connection, moved)
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
        # A broken cursor is none: the schedule is planned from its edit on.
        next_due=next_due if isinstance(next_due, datetime) else None,
        edited=not row.is_current,
        idle=idle,
        problem=row.problem,
        unfinished=unfinished.get(schedule.id),
        circumstances=circumstances.circumstances if circumstances else None,
    )


def _plan_row(row: Row[Any], cursor: Cursor, judge: str | None = None) -> PlanRow:
    return PlanRow(
        scheduler_id=row.id,
        next_due_at=cursor.next_due,
        planned_at=row.stamp,
        problem=cursor.problem,
        judged_by=judge,
        resume_at=cursor.resume_at if cursor.idle is None else cursor.idle.since,
        idle=None if cursor.idle is None else cursor.idle.why.value,
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


_at = partial(bindparam, type_=UtcDateTime)
_IS_SENT_BEFORE = or_(executions.c.published_at.is_(None), executions.c.published_at < _at("since"))

#: Executions that are about to be marked, locked first: an UPDATE would wait for locked ones.
ALL = by_id(
    select(executions.c.id, executions.c.state, executions.c.attempt, executions.c.published_at)
).with_for_update()
UNLOCKED = ALL.with_for_update(skip_locked=True)
_SENT = (State.PUBLISHED, State.RETRYING)
_IS_SENT = executions.c.state.in_([state.value for state in _SENT])
#: What has its message in a queue, or should have: looked at in pages.
DOUBTABLE = (
    select(executions.c.id)
    .where(_IS_SENT, executions.c.id > bindparam("after"))
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)


def _is_doubted(state: State) -> ColumnElement[bool]:
    """Ask for what was last sent long ago: when, follows from *check_at* and the resends."""
    copies = func.coalesce(executions.c.resends, 0)
    sent_again = (
        and_(
            copies >= number if number == MANY_RESENDS else copies == number,
            executions.c.check_at < _at(f"{state.value}_{number}"),
        )
        for number in range(1, MANY_RESENDS + 1)
    )
    return and_(
        executions.c.state == state.value,
        executions.c.check_at > _at(f"{state.value}_soon"),
        or_(and_(copies <= 0, _IS_SENT_BEFORE), *sent_again),
    )


#: Of a page what waits for a time of its own, and was sent before the broker fell silent. A retry
#: is looked for at its time in any case.
DOUBTED_EARLY: Select[Any] = (
    by_id(select(executions.c.id, executions.c.next_attempt_at))
    .where(
        is_in(State.PUBLISHED),
        executions.c.next_attempt_at > _at("now"),
        executions.c.check_at >= executions.c.next_attempt_at,
        _IS_SENT_BEFORE,
    )
    .with_for_update(skip_locked=True)
)
#: Of a page what waits for no time of its own, and was sent before the broker fell silent.
DOUBTED = (
    by_id(select(executions.c.id))
    .where(
        or_(
            executions.c.next_attempt_at.is_(None),
            executions.c.next_attempt_at <= _at("now"),
        ),
        or_(*(_is_doubted(state) for state in _SENT)),
    )
    .with_for_update(skip_locked=True)
)
DOUBT = by_id(update(executions)).values(check_at=bindparam("check", type_=UtcDateTime))
POSTPONE = (
    update(executions).where(executions.c.id == bindparam("found_id")).values(check_at=_at("check"))
)
_IS_LATE = {state: executions.c.check_at <= _at(state.value) for state in sorted(STARTABLE)}
LONGEST_OVERDUE = (
    select(executions.c.id)
    .where(
        or_(*(and_(executions.c.state == state.value, late) for state, late in _IS_LATE.items()))
    )
    .order_by(executions.c.check_at, executions.c.id)
    .limit(bindparam("limit"))
)
# Chosen first and taken then, or a database that sorts would lock all that it sorted.
OVERDUE = (
    by_id(EXECUTION)
    .where(
        or_(*(and_(is_in(state), late) for state, late in _IS_LATE.items())),
    )
    .order_by(executions.c.check_at, executions.c.id)
    .with_for_update(skip_locked=True)
)
OF_UNFINISHED = (
    EXECUTION.where(
        executions.c.state.in_(sorted(state.value for state in STARTABLE)),
        executions.c.id > bindparam("after"),
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
# What runs has a lease; saying so lets SQLite use its index of the few rows that have one.
_RUNNING = and_(executions.c.state == State.RUNNING.value, executions.c.lease_until.is_not(None))
OWNERS = select(executions.c.owner).where(_RUNNING, executions.c.owner.is_not(None)).distinct()
_HAS_LAPSED = executions.c.lease_until <= _at("now")
ONE_LAPSED = select(executions.c.id).where(_RUNNING, _HAS_LAPSED).limit(1)
LAPSED = EXECUTION.where(_RUNNING, _HAS_LAPSED).order_by(executions.c.id).limit(bindparam("limit"))
RUN_BY = (
    EXECUTION.where(_RUNNING, executions.c.owner.in_(bindparam("nodes", expanding=True)))
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
_NOW, _HORIZON = _at("now"), _at("horizon")
_WAITS = executions.c.state.in_(sorted(state.value for state in STARTABLE))
_RUNS = executions.c.state == State.RUNNING.value
# Other than a first attempt, claimed in the past, that waits for its jitter, which has no bound.
_MAY_NOT_WAIT = or_(
    executions.c.next_attempt_at.is_(None),
    executions.c.next_attempt_at <= _NOW,
    executions.c.attempt > 1,
    executions.c.executed_at > _NOW,
)
#: What waits or runs with a time that never comes: there is none, after an edit by hand, or it is
#: of a clock that was far ahead. Each part has an index.
_STRAY = or_(
    and_(_WAITS, executions.c.check_at.is_(None)),
    and_(_WAITS, executions.c.check_at > _HORIZON, _MAY_NOT_WAIT),
    and_(_RUNS, executions.c.lease_until.is_(None)),
    and_(_RUNS, executions.c.lease_until > _HORIZON),
)
STRAYS = select(executions.c.id).where(_STRAY).limit(bindparam("limit"))
#: Lets somebody find strays from now on.
REGAIN = (
    by_id(update(executions))
    .where(_STRAY)
    .values(
        check_at=case((_WAITS, _NOW), else_=executions.c.check_at),
        lease_until=case((_RUNS, _NOW), else_=executions.c.lease_until),
        next_attempt_at=case(
            (executions.c.next_attempt_at > _HORIZON, _NOW), else_=executions.c.next_attempt_at
        ),
    )
)


def doubts(since: datetime, now: datetime) -> dict[str, datetime]:
    """Give the parameters of `DOUBTED` but its ids: when a copy of *since* would be late."""
    late = {
        f"{state.value}_{number}": after_resend(number - 1, state, since)
        for state in _SENT
        for number in range(1, MANY_RESENDS + 1)
    }
    soon = {f"{state.value}_soon": expected_soon(state, now) for state in _SENT}
    return {"since": since, "now": now, **late, **soon}


def postponement(found: Execution, now: datetime, graces: Graces) -> dict[str, Any]:
    """Give the parameters of `POSTPONE`: from when on the grace counts again."""
    return {"found_id": found.id, "check": expected_anew_at(found, now, grace=graces.published)}


def postponed_by_doubt(rows: Iterable[Row[Any]], now: datetime) -> list[dict[str, Any]]:
    """Give the parameters of `POSTPONE` for those that `DOUBTED_EARLY` found."""
    return [
        {"found_id": row.id, "check": expected_after_doubt(row.next_attempt_at, now)}
        for row in rows
        if isinstance(row.next_attempt_at, datetime)
    ]


def lock_rows(
    connection: Connection, statement: Select[Any], ids: Sequence[int]
) -> Mapping[int, Row[Any]]:
    """Lock executions by `ALL` or `UNLOCKED`; gives the locked ones by id."""
    return {row.id: row for row in named_rows(connection, statement, {"ids": ids})}
