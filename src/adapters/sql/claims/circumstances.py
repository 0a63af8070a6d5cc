"""What a batch of schedules with conditions or pauses has to know, and what it leaves behind.

A batch in which none has any reads nothing here, and writes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs
from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    func,
    select,
    update,
)

from cronhare.domain.execution import State
from cronhare.domain.messages.nack_count import MOST
from cronhare.domain.schedules.circumstances import Circumstances, NewestSkip, counts_runs
from cronhare.domain.schedules.planning import Plan
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule

from ..dialect import Dialect
from ..rows.own import OwnTable
from ..rows.schedules import PAUSE_COLUMNS, find_calendars, read_pause
from ..schema.tables import IDS, by_id, executions, plans
from ..schema.types import UtcDateTime

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
# Locked, or the cleanup could delete what is prolonged; another row is as good as a locked one.
_TABLE: Final = OwnTable(executions, state=State)

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
        and row.missed < MOST
    }
