"""Pages of schedules: which are due, edited or could not be planned; and what to know of them.

A batch in which no schedule has conditions or a pause reads nothing more, and writes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

import attrs
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    tuple_,
    update,
)

from cronhare.domain.execution import State
from cronhare.domain.messages import MOST_NACKS
from cronhare.domain.schedules.planning import Plan, Planned, Planner
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule
from cronhare.domain.schedules.skips import Circumstances, NewestSkip, counts_runs
from cronhare.ports.claims import Batch

from ..dialect import Cooldown, Dialect
from ..tables.executions import display_name
from ..tables.schedules import PAUSE_COLUMNS, STAMP, find_calendars, read_pause, select_schedules
from ..tables.tables import IDS, by_id, executions, plans, schedulers
from ..tables.types import HandWritten, OwnTable, UtcDateTime


class Page:
    """The schedules that one call looks at.

    Of those with a reason, and of those that were refused of late and not edited since, it only
    says what is wrong.
    """

    def __init__(self, planner: Planner, problems: Cooldown, *, limit: int, now: datetime) -> None:
        """*problems* are the schedules that were refused of late, each with the reason."""
        self.now = now
        self.was_locked = False
        self.reasons: dict[int, str] = {}
        self._planner = planner
        self._problems = problems
        self._of_late = problems.at(now)
        self._limit = limit
        self._rows: Sequence[Row[Any]] = ()

    @property
    def names(self) -> Mapping[int, str]:
        """The schedules by id, in the order in which they were found."""
        ids = [row.id or row.planned_id for row in self._rows]
        return {id_: display_name(row.name, id_) for id_, row in zip(ids, self._rows, strict=True)}

    @property
    def is_full(self) -> bool:
        """Whether there may be more behind it."""
        return len(self._rows) == self._limit

    def note(self, rows: Sequence[Row[Any]], only: Sequence[int] | None) -> None:
        """Take note of what was found, unless it is a part of that: *only* some."""
        if only is None:
            self._rows = rows

    def plan(self, planned: Planned) -> Plan:
        """Plan a schedule, or say what is wrong."""
        id_ = planned.schedule.id
        reason = self.reasons.get(id_)
        if reason is None and planned.edited:
            self._problems.forget(id_)
        elif reason is None:
            reason = self._of_late.get(id_)
        return self._planner(planned) if reason is None else Plan(problem=reason)


def joined(batches: Sequence[Batch]) -> Batch:
    """Join what several transactions did."""
    return Batch(
        looked=sum(one.looked for one in batches),
        claimed=tuple(chain.from_iterable(one.claimed for one in batches)),
        held=sum(one.held for one in batches),
        skipped=sum(one.skipped for one in batches),
        problems=tuple(chain.from_iterable(one.problems for one in batches)),
        busy=sum(one.busy for one in batches),
        gates=tuple(chain.from_iterable(one.gates for one in batches)),
    )


#: A place in the order in which schedules were written: updated_at, and the id.
Place = tuple[object, int]

BEFORE_ALL: Place = (datetime(1, 1, 1, tzinfo=UTC), 0)


def _after(
    moment: ColumnElement[datetime], id_: ColumnElement[int], kind: type[UtcDateTime]
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Find the rows behind a place, whose parameters are `at` and `id`.

    Both conditions say the same: MySQL uses no index range for pairs, SQLite none for OR.
    """
    at, after = bindparam("at", type_=kind), bindparam("id", type_=BigInteger)
    return tuple_(moment, id_) > tuple_(at, after), or_(
        moment > at, and_(moment == at, id_ > after)
    )


_IS_DUE = plans.c.next_due_at <= bindparam("until", type_=UtcDateTime)
NEXT_DUE = select(func.min(plans.c.next_due_at))
NEXT_DUE_AFTER = NEXT_DUE.where(plans.c.next_due_at > bindparam("after", type_=UtcDateTime))
DUE = (
    select(plans)
    # Until MySQL has counted a new table's rows it would read, and lock, every plan.
    .with_hint(plans, "FORCE INDEX (ix_plan_next_due_at)", "mysql")
    .where(_IS_DUE, *_after(plans.c.next_due_at, plans.c.scheduler_id, UtcDateTime))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(bindparam("limit"))
)
EDITED = (
    select_schedules()
    .select_from(schedulers.outerjoin(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(
        STAMP.is_distinct_from(plans.c.planned_at),
        *_after(schedulers.c.updated_at, schedulers.c.id, HandWritten),
    )
    .order_by(schedulers.c.updated_at, schedulers.c.id)
    .limit(bindparam("limit"))
)
PROBLEMS = (
    select_schedules()
    .select_from(schedulers.join(plans, schedulers.c.id == plans.c.scheduler_id))
    .where(plans.c.problem.is_not(None), plans.c.scheduler_id > bindparam("after"))
    .order_by(plans.c.scheduler_id)
    .limit(bindparam("limit"))
)
PROBLEMS_OF_LATE = PROBLEMS.where(
    schedulers.c.updated_at > bindparam("since", type_=HandWritten), plans.c.next_due_at.is_(None)
)


def schedules_of(due: Select[Any]) -> Select[Any]:
    """Read plans with their schedules, locking the plans alone: people edit the schedules."""
    taken = due.subquery("taken")
    return (
        select_schedules(taken)
        .select_from(taken.outerjoin(schedulers, schedulers.c.id == taken.c.scheduler_id))
        .order_by(taken.c.next_due_at, taken.c.scheduler_id)
    )


def is_later(place: Place, floor: Place) -> bool:
    """Tell whether a place lies behind another; one from a broken row does not."""
    match place, floor:
        case (datetime() as at, int(id_)), (datetime() as floor_at, int(floor_id)):
            return (at, id_) > (floor_at, floor_id)
    return False


Known = Sequence[tuple[Row[Any], Schedule | BrokenSchedule]]

_PLANS: Final[Select[Any]] = select(
    plans.c.scheduler_id, *(plans.c[name] for name in PAUSE_COLUMNS), plans.c.claimed
).where(plans.c.scheduler_id.in_(IDS))

_SKIPPED: Final = executions.c.state == State.SKIPPED.value
_LATEST: Final = (
    select(executions.c.scheduler_id, func.max(executions.c.due_at).label("due_at"))
    .where(executions.c.scheduler_id.in_(IDS), _SKIPPED)
    .group_by(executions.c.scheduler_id)
    .subquery()
)
_SKIPPED_LAST: Final = select(executions.c.id).join(
    _LATEST,
    and_(
        executions.c.scheduler_id == _LATEST.c.scheduler_id,
        executions.c.due_at == _LATEST.c.due_at,
        _SKIPPED,
    ),
)
_TABLE: Final = OwnTable(executions, state=State)

# Locked, or the cleanup could delete what is prolonged; another row is as good as a locked one.
_NEWEST_SKIPS: Final = by_id(
    select(
        executions.c.id,
        executions.c.scheduler_id,
        executions.c.execution_key,
        executions.c.state,
        executions.c.last_due_at,
        executions.c.last_error,
        executions.c.missed,
    )
).with_for_update(skip_locked=True)

_PROLONG: Final = (
    update(executions)
    .where(executions.c.id == bindparam("row_id"))
    .values(
        last_due_at=bindparam("last", type_=UtcDateTime),
        finished_at=bindparam("now", type_=UtcDateTime),
        missed=executions.c.missed + bindparam("more"),
    )
)
_COUNT: Final = (
    update(plans)
    .where(plans.c.scheduler_id == bindparam("row_id"))
    .values(claimed=bindparam("now_claimed"))
)


@attrs.frozen(kw_only=True)
class Found:
    """The circumstances of one schedule, and the row that a skip prolongs."""

    circumstances: Circumstances
    newest_skip_id: int | None = None


def find_circumstances(connection: Connection, known: Known) -> Mapping[int, Found]:
    """Read what the schedules that have conditions or a pause need; most batches have none."""
    asking = [
        (row.is_paused, schedule)
        for row, schedule in known
        if isinstance(schedule, Schedule) and (row.is_paused or schedule.conditions is not None)
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


def keep_tallies(
    connection: Connection,
    dialect: Dialect,
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
        dialect.update_many(connection, _COUNT, rows)


def prolong(
    connection: Connection,
    dialect: Dialect,
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
        dialect.update_many(connection, _PROLONG, rows)
    return sum(row["more"] for row in rows)  # type: ignore[misc]


def _newest_skips(
    connection: Connection, ids: Sequence[int]
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
