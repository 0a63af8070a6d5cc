"""Statistics of executions, of failures, and of when schedules are due.

Each is one SELECT, which the database groups.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import attrs
import sqlalchemy as sa

from cronhare.domain.cron.text import resolve, split_fields
from cronhare.domain.execution import REPLAYABLE, State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.schedules.schedule import CLEANUP_NAME, ByHand
from cronhare.domain.schedules.task import SYSTEM
from cronhare.ports.schedules import SameTiming, Timings
from cronhare.ports.statistics import (
    REASON_LENGTH,
    By,
    ExecutionCount,
    FailureCount,
    ScheduleResult,
    ScheduleResults,
)

from ..database import Store, repeatable
from ..gauges import last_of_schedule
from ..tables.executions import display_name, in_states
from ..tables.schedule_columns import SPANS_MS, TIME_COLUMNS, read_times
from ..tables.schedules import IS_ON, IS_USERS, STAMP
from ..tables.tables import executions, failed_tasks, outbox, plans, schedulers
from .archive import has_class, those_of
from .lists import Timeline, ids_between

_FAILURE, _RUN, _ROW = failed_tasks.c, executions.c, schedulers.c


def _how_many(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.count(sa.case((condition, 1)))


def _task(table: Any) -> sa.ColumnElement[str]:  # noqa: ANN401 - the columns of either table
    """Call a row's task as `called` does; people may have written an empty text."""
    number = table.task_type + " " + sa.cast(table.task_id, sa.String(20))
    return sa.func.coalesce(
        sa.func.nullif(table.topic, ""), sa.func.nullif(table.task_name, ""), number
    )


_OF_EXECUTIONS: Mapping[By, sa.ColumnElement[Any]] = {
    By.DAY: sa.func.date(_RUN.executed_at),
    By.TYPE: _RUN.task_type,
    By.TASK: _task(_RUN),
    By.SCHEDULE: _RUN.scheduler_id,
    By.QUEUE: _RUN.queue,
}


_OF_FAILURES: Mapping[By, sa.ColumnElement[Any]] = {
    By.DAY: sa.func.date(_FAILURE.failed_at),
    By.TYPE: _FAILURE.task_type,
    By.TASK: _task(_FAILURE),
    By.SCHEDULE: _FAILURE.schedule_name,
    By.QUEUE: _FAILURE.queue,
    By.REASON: sa.func.substr(_FAILURE.failed_reason, 1, REASON_LENGTH),
    By.CLASS: sa.case(
        *((has_class(each), each.value) for each in ErrorClass), else_=ErrorClass.UNKNOWN.value
    ),
}


_COUNTED: Final = {"executions": executions, "failures": failed_tasks, "events": outbox}


def _last_end(*states: State) -> sa.ScalarSelect[Any]:
    is_one = in_states(states)
    return last_of_schedule(
        _RUN.finished_at, is_one, _RUN.finished_at.is_not(None), order=_RUN.finished_at
    )


_HAS_NO_TIMES: Final = sa.and_(
    sa.func.coalesce(_ROW.schedule, "") == "", _ROW.date_time.is_(None), _ROW.every_ms.is_(None)
)
_PLANS: Final = plans.join(schedulers, _ROW.id == plans.c.scheduler_id)
_MAY_RUN_AGAIN: Final = (
    sa.or_(plans.c.next_due_at.is_not(None), sa.and_(IS_ON, _HAS_NO_TIMES)),
    sa.func.coalesce(_ROW.name, "") != CLEANUP_NAME,
)
_LAST_RESULTS: Final[sa.Select[Any]] = (
    sa.select(_ROW.id, _ROW.name, _last_end(State.SUCCEEDED), _last_end(*sorted(REPLAYABLE)))
    .select_from(_PLANS)
    .where(*_MAY_RUN_AGAIN)
    .order_by(_ROW.id)
)
_KNOWN_RESULTS: Final = sa.select(sa.func.count()).select_from(_PLANS).where(*_MAY_RUN_AGAIN)


# When schedules are due


_TEXT: Final = sa.func.lower(schedulers.c.schedule)
#: Texts whose numbers may be made of the schedule's name: they are not counted together.
_IS_NAMED: Final = sa.func.replace(_TEXT, "thu", "").like("%h%") & _TEXT.not_like("@%")
_ENABLED: Final = (
    sa.select(
        *(schedulers.c[name] for name in TIME_COLUMNS),
        schedulers.c.jitter_ms,
        sa.case((_IS_NAMED, schedulers.c.name)).label("of_name"),
        sa.case((_IS_NAMED, schedulers.c.id)).label("of_id"),
    )
    .where(
        IS_USERS,
        schedulers.c.status == sa.bindparam("on", value=True, type_=schedulers.c.status.type),
    )
    .subquery()
)
_TIMINGS: Final = sa.select(*_ENABLED.c, sa.func.count().label("number")).group_by(*_ENABLED.c)
_VERSION: Final = sa.select(sa.func.count(), sa.func.max(STAMP)).where(IS_USERS)


class SqlStatistics(Store, Timeline):
    """Satisfies `StatisticsPort`."""

    @repeatable
    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCount]:
        statement = sa.select(
            *(_OF_FAILURES[each].label(each.name) for each in by),
            sa.func.count().label("failures"),
            _how_many(_FAILURE.kind != State.FAILED.value).label("quarantined"),
            _how_many(_FAILURE.resolution.is_(None)).label("unresolved"),
            sa.func.avg(_FAILURE.retry_count).label("mean_retries"),
            sa.func.min(_FAILURE.failed_at).label("first_at"),
            sa.func.max(_FAILURE.failed_at).label("last_at"),
        ).where(*those_of(which))
        with self._database.read("counting failures") as connection:
            rows = connection.execute(_grouped(statement, by, limit)).all()
        return [FailureCount(group=_group(row, by), **_counted(row, by)) for row in rows]

    @repeatable
    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCount]:
        statement = sa.select(
            *(_OF_EXECUTIONS[each].label(each.name) for each in by),
            sa.func.count().label("total"),
            _how_many(_RUN.state == State.SUCCEEDED.value).label("succeeded"),
            _how_many(in_states(REPLAYABLE)).label("failed"),
            _how_many(_RUN.deaths > 0).label("retried"),
            sa.func.avg(_RUN.attempt).label("mean_attempts"),
        ).where(
            _RUN.executed_at >= since, _RUN.state != State.SKIPPED.value, _RUN.task_type != SYSTEM
        )
        if until is not None:
            statement = statement.where(_RUN.executed_at < until)
        with self._database.read("counting executions") as connection:
            ids = ids_between(connection, since, until)
            if ids is None:
                return ()
            ours = statement.where(_RUN.id >= ids[0], _RUN.id < ids[1])
            rows = connection.execute(_grouped(ours, by, limit)).all()
            groups = [_group(row, by) for row in rows]
            if By.SCHEDULE in by:
                _name_schedules(connection, groups)
        return [
            ExecutionCount(group=group, **_counted(row, by))
            for group, row in zip(groups, rows, strict=True)
        ]

    @repeatable
    def last_results(self, *, limit: int) -> ScheduleResults:
        with self._database.read("looking for the last results") as connection:
            rows = connection.execute(_LAST_RESULTS.limit(limit)).all()
            known = connection.scalar(_KNOWN_RESULTS) or 0
        found = [
            ScheduleResult(schedule=display_name(name, id_), succeeded_at=good, failed_at=bad)
            for id_, name, good, bad in rows
        ]
        return ScheduleResults(results=found, unread=max(known - len(found), 0))

    @repeatable
    def timings(self) -> Timings:
        with self._database.read("counting what is due when") as connection:
            rows = connection.execute(_TIMINGS).all()
        counted = Counter[SameTiming | None]()
        for row in rows:
            counted[_timing(row)] += row.number
        broken = counted.pop(None, 0)
        groups = [
            attrs.evolve(each, number=number)
            for each, number in counted.items()
            if each is not None and not isinstance(each.timing, ByHand)
        ]
        return Timings(groups=groups, broken=broken)

    @repeatable
    def version(self) -> str:
        with self._database.read("looking whether schedules have changed") as connection:
            number, newest = connection.execute(_VERSION).one()
        return f"{number} {newest}"

    @repeatable
    def rows(self) -> Mapping[str, int]:
        # The first and the last id are each found at once in an index.
        found = {}
        with self._database.read("estimating rows") as connection:
            for name, table in _COUNTED.items():
                first = sa.select(sa.func.min(table.c.id)).scalar_subquery()
                low, high = connection.execute(sa.select(first, sa.func.max(table.c.id))).one()
                found[name] = 0 if high is None else high - low + 1
        return found


def _grouped(statement: sa.Select[Any], by: Sequence[By], limit: int) -> sa.Select[Any]:
    """Group by the first columns, by their places: their values would be bound anew."""
    places: list[sa.ColumnElement[Any]] = [
        sa.literal_column(str(place)) for place in range(1, len(by) + 1)
    ]
    days = [place.desc() for place, each in zip(places, by, strict=True) if each is By.DAY]
    number: sa.ColumnElement[Any] = sa.literal_column(str(len(by) + 1))
    return statement.group_by(*places).order_by(*days, number.desc()).limit(limit)


def _counted(row: sa.Row[Any], by: Sequence[By]) -> dict[str, Any]:
    counted = dict(islice(row._asdict().items(), len(by), None))
    return {
        name: float(value or 0) if name.startswith("mean_") else value
        for name, value in counted.items()
    }


def _group(row: sa.Row[Any], by: Sequence[By]) -> dict[By, str]:
    return {each: str(cell) for each, cell in zip(by, row, strict=False)}


def _name_schedules(connection: sa.Connection, groups: Sequence[dict[By, str]]) -> None:
    ids = {int(group[By.SCHEDULE]) for group in groups}
    rows = connection.execute(sa.select(_ROW.id, _ROW.name).where(_ROW.id.in_(ids)))
    names = {str(id_): display_name(name, id_) for id_, name in rows}
    for group in groups:
        group[By.SCHEDULE] = names.get(group[By.SCHEDULE], f"#{group[By.SCHEDULE]}")


def _timing(row: sa.Row[*tuple[Any, ...]]) -> SameTiming | None:
    values, jitter = tuple(row[: len(TIME_COLUMNS)]), row.jitter_ms or 0
    hashed: str | None = None
    try:
        times = read_times(values)
        if times.named:
            hashed, others = row.schedule, values[1:]
            fields, faults = resolve(split_fields(hashed), display_name(row.of_name, row.of_id))
            if faults:
                return None
            times = read_times((" ".join(fields), *others))
        if times.faults or jitter not in SPANS_MS:
            return None
        spread = timedelta(milliseconds=jitter)
        return SameTiming(number=0, hashed=hashed, jitter=spread, **times.schedule)
    except Exception:  # noqa: BLE001 - whatever people wrote, the other rows are counted
        return None
