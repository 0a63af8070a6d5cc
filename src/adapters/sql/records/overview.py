"""What is looked at often: by indexes alone, however long the history is."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final

from sqlalchemy import Engine, Select, bindparam, func, select, union_all

from cronhare.domain.execution import State
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.clock import ClockPort
from cronhare.ports.overview import Coming, Run

from ..events.alerts import IS_ALERT
from ..mapping.execution_rows import batches, display_name
from ..mapping.own_rows import OwnTable
from ..mapping.schedule_rows import STAMP
from ..schema.tables import alerts, executions, failed_tasks, plans, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable

#: So many schedules are asked for in one statement: SQLite takes 500 parts of a UNION.
_AT_ONCE: Final = 50

#: A state that should begin soon.
_TO_BEGIN: Final = (State.CLAIMED.value, State.PUBLISHED.value)

_TABLE: Final = OwnTable(executions, state=State)
_RUN: Final = select(
    executions.c.id,
    executions.c.scheduler_id,
    executions.c.state,
    executions.c.due_at,
    executions.c.executed_at,
    executions.c.started_at,
    executions.c.finished_at,
    executions.c.attempt,
)

_BETWEEN: Final = (
    plans.c.next_due_at >= bindparam("since", type_=UtcDateTime),
    plans.c.next_due_at < bindparam("until", type_=UtcDateTime),
)
_COMING: Final = (
    select(schedulers.c.id, schedulers.c.name, plans.c.next_due_at)
    .join_from(plans, schedulers, schedulers.c.id == plans.c.scheduler_id)
    .where(*_BETWEEN, schedulers.c.system_id.is_(None))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
    .limit(bindparam("most"))
)
#: Without a join, so that it is read from the index alone.
_COUNTS: Final = (
    select(plans.c.next_due_at, func.count().label("due"))
    .where(*_BETWEEN)
    .group_by(plans.c.next_due_at)
)
_UNPLANNED: Final = select(func.count()).select_from(
    select(schedulers.c.id)
    .join_from(schedulers, plans, schedulers.c.id == plans.c.scheduler_id, isouter=True)
    .where(
        schedulers.c.status == 1,
        schedulers.c.system_id.is_(None),
        STAMP.is_distinct_from(plans.c.planned_at),
    )
    .limit(bindparam("most"))
    .subquery()
)
_WAITING: Final = (
    select(executions.c.id)
    .where(
        executions.c.state.in_(_TO_BEGIN),
        executions.c.due_at < bindparam("since", type_=UtcDateTime),
    )
    .limit(bindparam("most"))
)
#: Each counts no further than asked: what is behind that is told as more.
_OF_STATE: Final = select(func.count()).select_from(
    select(executions.c.id)
    .where(executions.c.state == bindparam("state"))
    .limit(bindparam("most"))
    .subquery()
)
_UNRESOLVED: Final = select(func.count()).select_from(
    select(failed_tasks.c.id)
    .where(failed_tasks.c.resolution.is_(None))
    .limit(bindparam("most"))
    .subquery()
)
_ALERTS: Final = select(func.count()).select_from(
    select(alerts.c.rule)
    .where(IS_ALERT, alerts.c.cleared_at.is_(None))
    .limit(bindparam("most"))
    .subquery()
)


class SqlOverview:
    """Satisfies `OverviewPort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def recent(self, scheduler_ids: Collection[int], *, each: int) -> Mapping[int, Sequence[Run]]:
        known = [id_ for id_ in scheduler_ids if 0 < id_ <= LARGEST_ID]
        found: dict[int, list[tuple[bool, datetime, Run]]] = {}
        with self._database.read("looking for recent runs") as connection:
            for ids in batches(known, _AT_ONCE):
                # Nothing has 0: a statement of one length is compiled once.
                width = 1 if len(ids) == 1 else _AT_ONCE
                padded = chain(ids, repeat(0, width - len(ids)))
                asked = {f"id_{place}": id_ for place, id_ in enumerate(padded)}
                rows = connection.execute(_recent(width), {**asked, "most": each})
                for cells in _TABLE.readable(rows):
                    ended = cells.finished_at
                    place = ended is None, ended or cells.executed_at, _run(cells)
                    found.setdefault(cells.scheduler_id, []).append(place)
        return {
            scheduler_id: [run for *_, run in sorted(runs, key=_in_order)[-each:]]
            for scheduler_id, runs in found.items()
        }

    @repeatable
    def coming(self, since: datetime, until: datetime, *, limit: int) -> Sequence[Coming]:
        with self._database.read("looking for what is due next") as connection:
            asked = {"since": since, "until": until, "most": limit}
            rows = connection.execute(_COMING, asked)
            return [Coming(display_name(row.name, row.id), row.next_due_at) for row in rows]

    @repeatable
    def count_coming(self, since: datetime, until: datetime) -> Mapping[datetime, int]:
        with self._database.read("counting what is due next") as connection:
            rows = connection.execute(_COUNTS, {"since": since, "until": until})
            return {row.next_due_at: row.due for row in rows}

    @repeatable
    def count_unplanned(self, *, most: int) -> int:
        with self._database.read("counting what no scheduler has planned") as connection:
            return connection.scalar(_UNPLANNED, {"most": most}) or 0

    @repeatable
    def waiting(self, since: datetime, *, limit: int) -> Sequence[int]:
        with self._database.read("looking for what has not begun") as connection:
            return [*connection.scalars(_WAITING, {"since": since, "most": limit})]

    @repeatable
    def count(self, states: Collection[State], *, most: int) -> Mapping[State, int]:
        with self._database.read("counting executions") as connection:
            return {
                state: connection.scalar(_OF_STATE, {"state": state.value, "most": most}) or 0
                for state in states
            }

    @repeatable
    def count_unresolved(self, *, most: int) -> int:
        with self._database.read("counting failures") as connection:
            return connection.scalar(_UNRESOLVED, {"most": most}) or 0

    @repeatable
    def count_alerts(self, *, most: int) -> int:
        with self._database.read("counting alerts") as connection:
            return connection.scalar(_ALERTS, {"most": most}) or 0


@lru_cache
def _recent(schedules: int) -> Select[Any]:
    """Ask for two ranges of the index (scheduler_id, finished_at) of each schedule."""
    parts = []
    for place in range(schedules):
        ours = _RUN.where(executions.c.scheduler_id == bindparam(f"id_{place}"))
        has_ended = executions.c.finished_at.is_not(None)
        ended = ours.where(has_ended).order_by(executions.c.finished_at.desc())
        is_open = ours.where(executions.c.finished_at.is_(None)).order_by(executions.c.id.desc())
        parts += [part.limit(bindparam("most")).subquery() for part in (ended, is_open)]
    return union_all(*(select(part) for part in parts))  # type: ignore[return-value]


def _in_order(found: tuple[bool, datetime, Run]) -> tuple[bool, datetime, int]:
    is_open, at, run = found
    return is_open, at, run.id


def _run(cells: Any) -> Run:  # noqa: ANN401 - see `OwnTable.each`
    return Run(
        id=cells.id,
        state=cells.state,
        due_at=cells.due_at or cells.executed_at,
        started_at=cells.started_at,
        finished_at=cells.finished_at,
        attempt=cells.attempt,
    )
