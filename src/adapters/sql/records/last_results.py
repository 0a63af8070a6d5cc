"""How the runs of schedules last ended, and how long the tables are: what monitoring asks."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, ScalarSelect, Select, Table, and_, bindparam, func, or_, select

from cronhare.domain.execution import REPLAYABLE, State
from cronhare.domain.lifecycle.statistics import ScheduleResult, ScheduleResults
from cronhare.domain.schedules.schedule import CLEANUP_NAME

from ..mapping.execution_rows import display_name
from ..schedule_names import IS_ON
from ..schema.tables import executions, failed_tasks, outbox, plans, schedulers

_TABLES: Final[Mapping[str, Table]] = {
    "executions": executions,
    "failures": failed_tasks,
    "events": outbox,
}

_ROW: Final = schedulers.c
_WITHOUT_TIMES: Final = and_(
    IS_ON,
    func.coalesce(_ROW.schedule, "") == "",
    _ROW.date_time.is_(None),
    _ROW.every_ms.is_(None),
)
_MAY_RUN_AGAIN: Final = (
    or_(plans.c.next_due_at.is_not(None), _WITHOUT_TIMES),
    func.coalesce(_ROW.name, "") != CLEANUP_NAME,
)
_COUNT: Final[Select[Any]] = (
    select(func.count())
    .select_from(plans.join(schedulers, schedulers.c.id == plans.c.scheduler_id))
    .where(*_MAY_RUN_AGAIN)
)


def _last(states: Collection[State]) -> ScalarSelect[Any]:
    """Find the newest end: the index (scheduler_id, finished_at) is walked from there."""
    return (
        select(executions.c.finished_at)
        .where(
            executions.c.scheduler_id == schedulers.c.id,
            executions.c.finished_at.is_not(None),
            executions.c.state.in_([state.value for state in states]),
        )
        .order_by(executions.c.finished_at.desc())
        .limit(1)
        .scalar_subquery()
    )


_RESULTS: Final[Select[Any]] = (
    select(
        schedulers.c.id,
        schedulers.c.name,
        _last([State.SUCCEEDED]).label("succeeded_at"),
        _last(sorted(REPLAYABLE)).label("failed_at"),
    )
    .select_from(plans.join(schedulers, schedulers.c.id == plans.c.scheduler_id))
    .where(*_MAY_RUN_AGAIN)
    .order_by(schedulers.c.id)
    .limit(bindparam("most"))
)


def last_results(connection: Connection, limit: int) -> ScheduleResults:
    found = [
        ScheduleResult(
            schedule=display_name(row.name, row.id),
            succeeded_at=_moment(row.succeeded_at),
            failed_at=_moment(row.failed_at),
        )
        for row in connection.execute(_RESULTS, {"most": limit})
    ]
    known = int(connection.execute(_COUNT).scalar_one())
    return ScheduleResults(results=found, unread=max(known - len(found), 0))


def spans(connection: Connection) -> dict[str, int]:
    """See `StatisticsPort.rows`: the first and the last id of an index are found at once."""
    found = {}
    for name, table in _TABLES.items():
        first, last = connection.execute(
            select(select(func.min(table.c.id)).scalar_subquery(), func.max(table.c.id))
        ).one()
        found[name] = 0 if last is None else int(last) - int(first) + 1
    return found


def _moment(value: Any) -> datetime | None:  # noqa: ANN401 - of SQLite anything
    return value if isinstance(value, datetime) else None
