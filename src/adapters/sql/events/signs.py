"""What alerts are judged by: a few numbers of the ledger, and what is known of schedules.

All is found by indexes, however long the history is.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import (
    Connection,
    Row,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
)

from cronhare.domain.cron.zones import find_zone
from cronhare.domain.events.alerts import CLEAR_AFTER
from cronhare.domain.events.judging import (
    LOOKS_BACK,
    MOST_COUNTED,
    NEWEST,
    OUTPUT_LOOKED_FOR,
    USUAL_RUNS,
    RunSigns,
    ScheduleSigns,
    Signs,
    long_time,
)
from cronhare.domain.execution import State
from cronhare.domain.schedules.task import COLUMN_OF_TYPE, SYSTEM, TaskRef

from ..database import repeatable
from ..gauges import SystemSignsPart
from ..tables.executions import (
    BY_IDS,
    IS_LAST_ATTEMPT,
    IS_LAST_OUTPUT,
    IS_STANDALONE,
    batches,
    display_name,
    find_executions,
    is_of_due_instant,
)
from ..tables.tables import IDS, attempts, executions, failed_tasks, outputs, plans, schedulers
from ..tables.types import OwnTable, UtcDateTime

#: Schedules, or runs, that one statement asks for.
_AT_ONCE: Final = 500

_UNRESOLVED: Final = (
    select(func.count())
    .select_from(
        select(failed_tasks.c.id)
        .where(failed_tasks.c.resolution.is_(None))
        .limit(MOST_COUNTED)
        .subquery()
    )
    .scalar_subquery()
)
_NEW: Final = (
    select(
        executions.c.id,
        executions.c.state,
        executions.c.deaths,
        executions.c.executed_at,
        executions.c.finished_at,
        executions.c.task_type,
    )
    .order_by(executions.c.id.desc())
    .limit(NEWEST)
    .subquery()
    .c
)
_COUNTED: Final = and_(
    _NEW.executed_at >= bindparam("since", type_=UtcDateTime),
    _NEW.state != State.SKIPPED.value,
    _NEW.task_type != SYSTEM,
)
_TOO_OFTEN: Final = and_(
    _COUNTED,
    _NEW.deaths > bindparam("retries"),
    or_(
        _NEW.finished_at.is_(None),
        _NEW.finished_at >= bindparam("ended", type_=UtcDateTime),
    ),
)
_LEDGER: Final[Select[Any]] = select(
    _UNRESOLVED.label("unresolved"),
    func.count(case((_COUNTED, 1))).label("runs"),
    func.count(case((and_(_COUNTED, _NEW.deaths > 0), 1))).label("retried"),
    func.count(case((_TOO_OFTEN, 1))).label("too_often"),
    func.max(case((_TOO_OFTEN, _NEW.id))).label("worst"),
)


_RUN: Final = select(executions.c.id).where(
    executions.c.scheduler_id == schedulers.c.id,
    is_of_due_instant(executions.c.execution_key),
    ~IS_STANDALONE,
)
_OPEN: Final = _RUN.where(
    executions.c.finished_at.is_(None),
    ~exists().where(failed_tasks.c.execution_id == executions.c.id),  # a replay: long over
)


def _first(found: Select[Any]) -> ScalarSelect[Any]:
    return found.order_by(executions.c.id).limit(1).scalar_subquery()


_SIGNS: Final[Select[Any]] = (
    select(
        schedulers.c.id,
        schedulers.c.name,
        schedulers.c.timezone,
        plans.c.next_due_at,
        plans.c.problem,
        _first(_OPEN.where(executions.c.started_at.is_(None), executions.c.attempt == 1)).label(
            "waiting"
        ),
        _first(_OPEN).label("unfinished"),
        _first(_OPEN.where(executions.c.state == State.RUNNING.value)).label("running"),
        _RUN.where(executions.c.finished_at.is_not(None), executions.c.state != State.SKIPPED.value)
        .order_by(executions.c.finished_at.desc(), executions.c.id.desc())
        .limit(1)
        .scalar_subquery()
        .label("last"),
    )
    .select_from(schedulers.outerjoin(plans, plans.c.scheduler_id == schedulers.c.id))
    .where(schedulers.c.id.in_(IDS))
)
#: What waits between two attempts does not run: each counts from its own start.
_ATTEMPTED: Final = executions.outerjoin(attempts, IS_LAST_ATTEMPT)
_RUNS: Final[Select[Any]] = (
    select(
        *(executions.c[name] for name in ("id", "due_at", "finished_at", "state")),
        attempts.c.started_at,
        outputs.c.stdout_bytes,
    )
    .select_from(_ATTEMPTED.outerjoin(outputs, IS_LAST_OUTPUT))
    .where(executions.c.id.in_(IDS))
)
_USUAL: Final[Select[Any]] = (
    select(executions.c.id, attempts.c.started_at, executions.c.finished_at, executions.c.state)
    .select_from(_ATTEMPTED)
    .where(
        executions.c.scheduler_id == bindparam("scheduler"), executions.c.finished_at.is_not(None)
    )
    .order_by(executions.c.finished_at.desc(), executions.c.id.desc())
    .limit(2 * USUAL_RUNS)
)

#: Reads an execution with the start and the output of its last attempt.
_ATTEMPT: Final = OwnTable(executions, stdout_bytes=int | None)


class Signals(SystemSignsPart):
    """The part of `AlertStorePort` that reads what alerts are judged by; what waits is a gauge."""

    @repeatable
    def signs(self, *, now: datetime, retries: int) -> Signs:
        asked = {"since": now - LOOKS_BACK, "retries": retries, "ended": now - CLEAR_AFTER}
        with self._database.read("looking for signs of trouble") as connection:
            found = connection.execute(_LEDGER, asked).one()
            worst = find_executions(connection, BY_IDS, [found.worst]) if found.worst else {}
        return Signs(
            unresolved=found.unresolved,
            runs=found.runs,
            retried=found.retried,
            too_often=found.too_often,
            worst=worst.get(found.worst),
        )

    @repeatable
    def schedule_signs(
        self, scheduler_ids: Collection[int], *, usual: Collection[int], now: datetime
    ) -> Sequence[ScheduleSigns]:
        ids, found = sorted(scheduler_ids), list[ScheduleSigns]()
        with self._database.read("looking at schedules that may alert") as connection:
            for part in batches(ids, _AT_ONCE):
                rows = connection.execute(_SIGNS, {"ids": part}).all()
                runs = _runs(connection, rows, now)
                found += (_signs(connection, row, runs, usual, now) for row in rows)
        return found

    @repeatable
    def of_no_file(
        self, refs: Collection[TaskRef], *, limit: int
    ) -> Mapping[int, tuple[str, TaskRef]]:
        columns = [
            schedulers.c[name] for name in (*COLUMN_OF_TYPE.values(), "task_type", "task_id")
        ]
        asked = (
            select(schedulers.c.id, schedulers.c.name, *columns)
            .where(schedulers.c.source.is_(None), schedulers.c.status == 1)
            .order_by(schedulers.c.id)
            .limit(limit)
        )
        with self._database.read("looking for schedules of no file") as connection:
            rows = connection.execute(asked).all()
        known = ((row, _ref(row)) for row in rows)
        return {
            row.id: (display_name(row.name, row.id), ref)
            for row, ref in known
            if ref is not None and ref in refs
        }


def _ref(row: Row[Any]) -> TaskRef | None:
    ways = [
        TaskRef(type_, number)
        for type_, column in COLUMN_OF_TYPE.items()
        if isinstance(number := getattr(row, column), int)
    ]
    if isinstance(row.task_type, str) and isinstance(row.task_id, int):
        ways.append(TaskRef(row.task_type, row.task_id))
    return ways[0] if len(ways) == 1 else None


def _runs(
    connection: Connection, rows: Sequence[Row[Any]], now: datetime
) -> Mapping[int, RunSigns]:
    names = ("waiting", "unfinished", "running", "last")
    ids = sorted({id_ for row in rows for name in names if (id_ := getattr(row, name))})
    read = (
        run
        for part in batches(ids, _AT_ONCE)
        for run in _ATTEMPT.readable(connection.execute(_RUNS, {"ids": part}))
    )
    # One without a due instant is another program's, in an adopted table.
    return {run.id: _run(run, now) for run in read if run.due_at is not None}


def _run(row: Any, now: datetime) -> RunSigns:  # noqa: ANN401 - see `OwnTable.each`
    output = row.stdout_bytes
    if output is None and row.finished_at and row.finished_at >= now - OUTPUT_LOOKED_FOR:
        output = 0  # what wrote nothing has no row; what is older may have been deleted
    return RunSigns(
        id=row.id,
        due_at=row.due_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        has_succeeded=row.state == State.SUCCEEDED.value,
        output=output,
    )


def _signs(
    connection: Connection,
    row: Row[Any],
    runs: Mapping[int, RunSigns],
    usual: Collection[int],
    now: datetime,
) -> ScheduleSigns:
    due, running, last = row.next_due_at, runs.get(row.running), runs.get(row.last)
    is_due = due is not None and due <= now and row.problem is None
    return ScheduleSigns(
        scheduler_id=row.id,
        name=display_name(row.name, row.id),
        zone=_zone(row.timezone),
        unclaimed=due if is_due else None,
        waiting=runs.get(row.waiting),
        unfinished=runs.get(row.unfinished),
        running=running,
        last=last,
        usual=_usual(connection, row.id, last)
        if row.id in usual and (long_time(running, now) or long_time(last, now))
        else (),
    )


def _usual(connection: Connection, scheduler_id: int, last: RunSigns | None) -> Sequence[timedelta]:
    """Give the durations of the runs before the last that succeeded."""
    found = (
        row.finished_at - row.started_at
        for row in _ATTEMPT.readable(connection.execute(_USUAL, {"scheduler": scheduler_id}))
        if row.state == State.SUCCEEDED.value
        and (last is None or row.id != last.id)
        and row.started_at is not None
        and row.finished_at >= row.started_at
    )
    return [*islice(found, USUAL_RUNS)]


def _zone(name: object) -> ZoneInfo:
    try:
        return find_zone(str(name or "UTC"))
    except ValueError:
        return ZoneInfo("UTC")
