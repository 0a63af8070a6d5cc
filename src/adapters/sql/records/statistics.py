"""Statistics in SQL: one SELECT for each question, grouped by the database.

They are of executions, of failures, and of when schedules are due: rows of those that agree in it
are one row of the answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    String,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
)

from cronhare.domain.cron.hashed import resolve
from cronhare.domain.cron.text import split_fields
from cronhare.domain.execution import REPLAYABLE, State
from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.statistics import (
    REASON_LENGTH,
    By,
    ExecutionCount,
    FailureCount,
    ScheduleResults,
)
from cronhare.domain.load.timings import SameTiming, Timings
from cronhare.domain.retries.outcome import ErrorClass, mark_of_class
from cronhare.domain.schedules.schedule import ByHand
from cronhare.domain.schedules.task import SYSTEM
from cronhare.ports.system import ClockPort

from ..database import Database, repeatable
from ..dialect import Dialect
from ..gauges import last_results, spans
from ..rows.executions import display_name
from ..rows.schedule_columns import SPANS_MS, TIME_COLUMNS, read_times
from ..rows.schedules import IS_USERS, STAMP
from ..schema.tables import executions, failed_tasks, schedulers
from .archive import those_of
from .lists import ids_between

_NUMBER = func.count()
_FAILURE, _RUN = failed_tasks.c, executions.c


def _how_many(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


def _task(table: Any) -> ColumnElement[str]:  # noqa: ANN401 - the columns of either table
    """Call a row's task as `called` does; people may have written an empty text."""
    number = table.task_type + " " + cast(table.task_id, String(20))
    return func.coalesce(func.nullif(table.topic, ""), func.nullif(table.task_name, ""), number)


_OF_EXECUTIONS: Mapping[By, ColumnElement[Any]] = {
    By.DAY: func.date(_RUN.executed_at),
    By.TYPE: _RUN.task_type,
    By.TASK: _task(_RUN),
    By.SCHEDULE: _RUN.scheduler_id,
    By.QUEUE: _RUN.queue,
}


class SqlStatistics:
    """Satisfies `StatisticsPort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCount]:
        dialect = self._database.dialect
        columns = _of_failures(dialect)
        statement = select(
            *(columns[each].label(each.name) for each in by),
            _NUMBER.label("number"),
            _how_many(_FAILURE.kind != State.FAILED.value).label("quarantined"),
            _how_many(_FAILURE.resolution.is_(None)).label("unresolved"),
            func.avg(_FAILURE.retry_count).label("mean"),
            func.min(_FAILURE.failed_at).label("first_at"),
            func.max(_FAILURE.failed_at).label("last_at"),
        ).where(*those_of(which, dialect))
        with self._database.read("counting failures") as connection:
            rows = connection.execute(_grouped(statement, by, limit)).all()
        return [_failures(row, by) for row in rows]

    @repeatable
    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCount]:
        statement = select(
            *(_OF_EXECUTIONS[each].label(each.name) for each in by),
            _NUMBER.label("number"),
            _how_many(_RUN.state == State.SUCCEEDED.value).label("succeeded"),
            _how_many(_RUN.state.in_([state.value for state in REPLAYABLE])).label("failed"),
            _how_many(_RUN.deaths > 0).label("retried"),
            func.avg(_RUN.attempt).label("mean"),
        ).where(
            _RUN.executed_at >= since,
            _RUN.state != State.SKIPPED.value,
            _RUN.task_type != SYSTEM,
        )
        if until is not None:
            statement = statement.where(_RUN.executed_at < until)
        with self._database.read("counting executions") as connection:
            ids = ids_between(connection, since, until)
            if ids is None:
                return ()
            ours = statement.where(_RUN.id >= ids[0], _RUN.id < ids[1])
            rows = connection.execute(_grouped(ours, by, limit)).all()
            names = _names(connection, rows) if By.SCHEDULE in by else {}
        return [_executions(row, by, names) for row in rows]

    @repeatable
    def last_results(self, *, limit: int) -> ScheduleResults:
        with self._database.read("looking for the last results") as connection:
            return last_results(connection, limit)

    @repeatable
    def rows(self) -> Mapping[str, int]:
        with self._database.read("estimating rows") as connection:
            return spans(connection)


def _of_failures(dialect: Dialect) -> Mapping[By, ColumnElement[Any]]:
    classes = (
        (dialect.position(_FAILURE.error, mark_of_class(each)) > 0, each.value)
        for each in ErrorClass
    )
    return {
        By.DAY: func.date(_FAILURE.failed_at),
        By.TYPE: _FAILURE.task_type,
        By.TASK: _task(_FAILURE),
        By.SCHEDULE: _FAILURE.schedule_name,
        By.QUEUE: _FAILURE.queue,
        By.REASON: func.substr(_FAILURE.failed_reason, 1, REASON_LENGTH),
        By.CLASS: case(*classes, else_=ErrorClass.UNKNOWN.value),
    }


def _grouped(statement: Select[Any], by: Sequence[By], limit: int) -> Select[Any]:
    """Group by the first columns, by their places: their values would be bound anew."""
    places: list[ColumnElement[Any]] = [
        literal_column(str(place)) for place in range(1, len(by) + 1)
    ]
    days = [place.desc() for place, each in zip(places, by, strict=True) if each is By.DAY]
    return statement.group_by(*places).order_by(*days, literal_column("number").desc()).limit(limit)


def _group(row: Row[Any], by: Sequence[By]) -> dict[By, str]:
    """People may have written anything into a row, or nothing."""
    return {each: "" if cell is None else str(cell) for each, cell in zip(by, row, strict=False)}


def _names(connection: Connection, rows: Sequence[Row[Any]]) -> Mapping[str, str]:
    ids = {row.SCHEDULE for row in rows}
    found = connection.execute(
        select(schedulers.c.id, schedulers.c.name).where(schedulers.c.id.in_(ids))
    )
    return {str(row.id): display_name(row.name, row.id) for row in found}


def _failures(row: Row[Any], by: Sequence[By]) -> FailureCount:
    return FailureCount(
        group=_group(row, by),
        failures=row.number,
        quarantined=row.quarantined,
        unresolved=row.unresolved,
        mean_retries=float(row.mean or 0),
        first_at=row.first_at,
        last_at=row.last_at,
    )


def _executions(row: Row[Any], by: Sequence[By], names: Mapping[str, str]) -> ExecutionCount:
    group = _group(row, by)
    if By.SCHEDULE in group:
        group[By.SCHEDULE] = names.get(group[By.SCHEDULE], f"#{group[By.SCHEDULE]}")
    return ExecutionCount(
        group=group,
        total=row.number,
        succeeded=row.succeeded,
        failed=row.failed,
        retried=row.retried,
        mean_attempts=float(row.mean or 0),
    )


# When schedules are due


_TEXT: Final = func.lower(schedulers.c.schedule)
#: Texts whose numbers may be made of the schedule's name: they are not counted together.
_IS_NAMED: Final = func.replace(_TEXT, "thu", "").like("%h%") & _TEXT.not_like("@%")
_ENABLED: Final = (
    select(
        *(schedulers.c[name] for name in TIME_COLUMNS),
        schedulers.c.jitter_ms,
        case((_IS_NAMED, schedulers.c.name)).label("of_name"),
        case((_IS_NAMED, schedulers.c.id)).label("of_id"),
    )
    .where(
        IS_USERS,
        schedulers.c.status == bindparam("on", value=True, type_=schedulers.c.status.type),
    )
    .subquery()
)
_TIMINGS: Final = select(*_ENABLED.c, func.count().label("number")).group_by(*_ENABLED.c)
_VERSION: Final = select(func.count(), func.max(STAMP)).where(IS_USERS)

#: What schedules have in common: their times, their text if it has an `H`, and jitter.
_InCommon = tuple[tuple[tuple[str, Any], ...], str | None, int]


class SqlTimingStore:
    """Satisfies `TimingStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)

    @repeatable
    def timings(self) -> Timings:
        with self._database.read("counting what is due when") as connection:
            rows = connection.execute(_TIMINGS).all()
        counted, broken = Counter[_InCommon](), 0
        for row in rows:
            group = _in_common(row)
            if group is None:
                broken += row.number
            else:
                counted[group] += row.number
        return Timings(
            groups=[
                SameTiming(
                    number=number,
                    hashed=hashed,
                    jitter=timedelta(milliseconds=jitter),
                    **dict(times),
                )
                for (times, hashed, jitter), number in counted.items()
                if not isinstance(dict(times)["timing"], ByHand)
            ],
            broken=broken,
        )

    @repeatable
    def version(self) -> str:
        with self._database.read("looking whether schedules have changed") as connection:
            number, newest = connection.execute(_VERSION).one()
        return f"{number} {newest}"


def _in_common(row: Row[*tuple[Any, ...]]) -> _InCommon | None:
    """Say what a row's schedules are counted with; None if they are broken."""
    values, jitter = tuple(row[: len(TIME_COLUMNS)]), row.jitter_ms or 0
    hashed: str | None = None
    try:
        times = read_times(values)
        if times.named:
            hashed, others = row.schedule, values[1:]
            fields = resolve(split_fields(hashed), display_name(row.of_name, row.of_id))
            if fields.faults:
                return None
            times = read_times((" ".join(fields.fields), *others))
    except MemoryError:  # says nothing of the row
        raise
    except Exception:  # noqa: BLE001 - whatever people wrote, the other rows are counted
        return None
    if times.faults or not (isinstance(jitter, int) and jitter in SPANS_MS):
        return None
    return (tuple(times.schedule.items()), hashed, jitter)
