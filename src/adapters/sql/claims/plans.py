"""Claims: of a batch of schedules in one transaction, and of a run that somebody asks for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import attrs
import msgspec
import sqlalchemy as sa

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle import claims
from cronhare.domain.lifecycle.claims import claim_run, skip
from cronhare.domain.messages import MOST_NACKS
from cronhare.domain.retries.limits import BudgetPolicy
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
from cronhare.domain.schedules.skips import Circumstances, NewestSkip, counts_runs
from cronhare.ports.claims import Batch

from ..dialect import TransactionRolledBack, dialect_of
from ..gates import gates_to_try, hold_back
from ..limits import spread_late
from ..tables.executions import EXECUTION, executions_of, in_states, known_id
from ..tables.schedules import (
    PAUSE_COLUMNS,
    READ,
    find_calendars,
    read_idle,
    read_pause,
    schedule_of,
)
from ..tables.tables import IDS, by_id, executions, plans, schedulers
from ..tables.types import OwnTable, moment_of

_RUN: Final = executions.c

Known = Sequence[tuple[sa.Row[Any], Schedule | BrokenSchedule]]

_PLANS: Final[sa.Select[Any]] = sa.select(
    plans.c.scheduler_id, *(plans.c[name] for name in PAUSE_COLUMNS), plans.c.claimed
).where(plans.c.scheduler_id.in_(IDS))

_SKIPPED: Final = _RUN.state == State.SKIPPED.value
_LATEST: Final = (
    sa.select(_RUN.scheduler_id, sa.func.max(_RUN.due_at).label("due_at"))
    .where(_RUN.scheduler_id.in_(IDS), _SKIPPED)
    .group_by(_RUN.scheduler_id)
    .subquery()
)
_SKIPPED_LAST: Final = sa.select(_RUN.id).join(
    _LATEST,
    sa.and_(_RUN.scheduler_id == _LATEST.c.scheduler_id, _RUN.due_at == _LATEST.c.due_at, _SKIPPED),
)
_TABLE: Final = OwnTable(executions, state=State)

# Locked, or the cleanup could delete what is prolonged; another row is as good as a locked one.
_NEWEST_SKIPS: Final = by_id(
    sa.select(
        _RUN.id,
        _RUN.scheduler_id,
        *_RUN["execution_key", "state", "last_due_at", "last_error", "missed"],
    )
).with_for_update(skip_locked=True)

_PROLONG: Final = (
    sa.update(executions)
    .where(_RUN.id == sa.bindparam("row_id"))
    .values(
        last_due_at=moment_of("last"),
        finished_at=moment_of("now"),
        missed=_RUN.missed + sa.bindparam("more"),
    )
)
_COUNT: Final = (
    sa.update(plans)
    .where(plans.c.scheduler_id == sa.bindparam("row_id"))
    .values(claimed=sa.bindparam("now_claimed"))
)


@attrs.frozen(kw_only=True)
class Found:
    """The circumstances of one schedule, and the row that a skip prolongs."""

    circumstances: Circumstances
    newest_skip_id: int | None = None


def find_circumstances(connection: sa.Connection, known: Known) -> Mapping[int, Found]:
    """Read what the schedules that have conditions or a pause need; most batches have none."""
    asking = [
        (row.is_paused, schedule)
        for row, schedule in known
        if isinstance(schedule, Schedule) and (row.is_paused or _has_conditions(schedule))
    ]
    if not asking:
        return {}
    calendars = find_calendars(
        connection,
        {name for _, one in asking if one.conditions for name in one.conditions.calendars},
    )
    planned = [one.id for is_paused, one in asking if is_paused or counts_runs(one)]
    rows = connection.execute(_PLANS, {"ids": planned}) if planned else ()
    plan_of = {row.scheduler_id: row for row in rows}
    newest = _newest_skips(connection, [schedule.id for _, schedule in asking])
    found = {}
    for _, schedule in asking:
        plan = plan_of.get(schedule.id)
        skip_id, newest_skip = newest.get(schedule.id, (None, None))
        circumstances = Circumstances(
            pause=None if plan is None else read_pause(plan),
            calendars=calendars,
            claimed=0 if plan is None else plan.claimed or 0,
            newest_skip=newest_skip,
        )
        found[schedule.id] = Found(circumstances=circumstances, newest_skip_id=skip_id)
    return found


def _has_conditions(schedule: Schedule) -> bool:
    return schedule.conditions is not None and schedule.conditions.judges_instants


def keep_tallies(
    connection: sa.Connection,
    planned: Iterable[tuple[Schedule, Plan]],
    found: Mapping[int, Found],
) -> None:
    """Count the runs that were due, of schedules that may have but so many.

    Their plans are locked by us, so nobody else counts them.
    """
    rows = [
        {
            "row_id": schedule.id,
            "now_claimed": found[schedule.id].circumstances.claimed + len(plan.runs),
        }
        for schedule, plan in planned
        if plan.runs and counts_runs(schedule)
    ]
    if rows:
        dialect_of(connection).update_many(connection, _COUNT, rows)


def prolong(
    connection: sa.Connection,
    planned: Iterable[tuple[Schedule, Plan]],
    found: Mapping[int, Found],
    *,
    now: datetime,
) -> int:
    """Prolong rows of instants that did not run; answers by how many instants."""
    rows = [
        {
            "row_id": found[schedule.id].newest_skip_id,
            "last": one.last,
            "more": one.count,
            "now": now,
        }
        for schedule, plan in planned
        for one in plan.skips
        if one.prolongs is not None
    ]
    if rows:
        dialect_of(connection).update_many(connection, _PROLONG, rows)
    return sum(row["more"] for row in rows)  # type: ignore[misc]


def _newest_skips(
    connection: sa.Connection, ids: Sequence[int]
) -> Mapping[int, tuple[int, NewestSkip]]:
    latest = connection.scalars(_SKIPPED_LAST, {"ids": ids}).all()
    if not latest:
        return {}
    rows = _TABLE.readable(connection.execute(_NEWEST_SKIPS, {"ids": latest}))
    return {
        row.scheduler_id: (
            row.id,
            NewestSkip(key=row.execution_key, last=row.last_due_at, reason=row.last_error),
        )
        for row in rows
        if row.state is State.SKIPPED
        and row.last_due_at is not None
        and row.last_error is not None
        and row.missed < MOST_NACKS
    }


_IS_HELD = _RUN.state == State.HELD.value
_UNFINISHED = (
    sa.select(
        _RUN.scheduler_id,
        sa.func.min(sa.case((_IS_HELD, None), else_=_RUN.id)).label("active"),
        sa.func.min(sa.case((_IS_HELD, _RUN.id))).label("waiting"),
        sa.func.sum(sa.case((_IS_HELD, 1), else_=0)).label("count"),
    )
    .where(
        _RUN.scheduler_id.in_(IDS),
        _RUN.finished_at.is_(None),  # for the index; old rows of others have no such time
        in_states(UNFINISHED),
    )
    .group_by(_RUN.scheduler_id)
)

_FORGET = sa.delete(plans).where(plans.c.scheduler_id.in_(IDS))


def apply_plans(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    *,
    now: datetime,
    node: str,
    planner: Planner,
    judge: str,
    late: BudgetPolicy | None,
) -> Batch:
    """Plan each schedule, claim its runs, record its skips, and move its cursor.

    After very many instants it leaves the rest of the batch: see `Batch.looked`. Runs that are late
    begin as their budget has places, if they have one.
    """
    if orphans := [row.planned_id for row in rows if row.id is None]:
        connection.execute(_FORGET, {"ids": orphans})  # deleted past the foreign keys
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
    inserted = _insert(connection, spread_late(connection, judged, late, now))
    if moved:
        dialect_of(connection).set_plans(connection, sorted(moved, key=itemgetter(0)))
    keep_tallies(connection, conditional, found)
    prolonged = prolong(connection, conditional, found, now=now)
    return Batch(
        looked=len(rows) - left,
        claimed=tuple(one for one in inserted if one.state is State.CLAIMED),
        held=sum(one.state is State.HELD for one in inserted),
        skipped=sum(one.missed for one in inserted if one.state is State.SKIPPED) + prolonged,
        problems=tuple(problems),
        gates=gates_to_try(inserted),
    )


def find_unfinished(
    connection: sa.Connection, schedules: Sequence[Schedule | BrokenSchedule]
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
    row: sa.Row[Any],
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


def _plan_row(row: sa.Row[Any], cursor: Cursor, judge: str | None = None) -> tuple[Any, ...]:
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


def _insert(connection: sa.Connection, wanted: Sequence[Execution]) -> list[Execution]:
    """Insert in the same order everywhere, so that two replicas cannot deadlock."""
    if not wanted:
        return []
    ordered = sorted(wanted, key=lambda one: (one.scheduler_id, one.due_at, one.key))
    ids = dialect_of(connection).insert_executions(connection, ordered)
    return [
        msgspec.structs.replace(one, id=id_) for one, id_ in zip(ordered, ids, strict=True) if id_
    ]


_BY_KEY = EXECUTION.where(
    _RUN.scheduler_id == sa.bindparam("scheduler_id"), _RUN.execution_key == sa.bindparam("key")
)
_SCHEDULE: sa.Select[Any] = sa.select(*READ).where(schedulers.c.id == sa.bindparam("scheduler_id"))
#: What others lock that claim runs of a schedule. Whoever plans it has its plan before its row.
_LOCKS = [
    sa.select(column).where(column == sa.bindparam("scheduler_id")).with_for_update()
    for column in (plans.c.scheduler_id, schedulers.c.id)
]


def find_by_key(connection: sa.Connection, scheduler_id: int, key: str) -> Execution | None:
    if not known_id(scheduler_id):
        return None
    rows = connection.execute(_BY_KEY, {"scheduler_id": scheduler_id, "key": key})
    return next(iter(executions_of(connection, rows)), None)


def claim_by_hand(
    connection: sa.Connection,
    scheduler_id: int,
    *,
    key: str,
    alone: bool = False,
    **asked: Any,  # noqa: ANN401 - see the domain's
) -> Execution:
    """Claim a run that no plan asked for. Its key is known to be free.

    What stays alive has to be *alone*, where that is asked for.
    """
    row = connection.execute(_SCHEDULE, {"scheduler_id": known_id(scheduler_id)}).first()
    schedule = None if row is None else schedule_of(row)
    run = claims.claim_by_hand(schedule, scheduler_id, key=key, **asked)
    if alone and is_standalone(run.queue):
        for lock in _LOCKS:
            connection.execute(lock, {"scheduler_id": scheduler_id})
        if (meanwhile := find_by_key(connection, scheduler_id, key)) is not None:
            return meanwhile
        assert isinstance(schedule, Schedule), "a stand-in has no queue of its own"
        claims.refuse_beside(find_unfinished(connection, [schedule]).get(scheduler_id))
    [id_] = dialect_of(connection).insert_executions(connection, [run])
    if not id_:
        raise TransactionRolledBack(f"{key} was claimed by somebody else in this very moment")
    return msgspec.structs.replace(run, id=id_)
