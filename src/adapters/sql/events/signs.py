"""What alerts are judged by: a few numbers of the ledger, and what is known of schedules.

All is found by indexes, however long the history is.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from cronhare.domain.cron.timeline import find_zone
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
from ..tables.types import OwnTable, moment_of

#: Schedules, or runs, that one statement asks for.
_AT_ONCE: Final = 500

_ROW: Final = executions.c
_ITS: Final = schedulers.c

_UNRESOLVED: Final = (
    sa.select(failed_tasks.c.id)
    .where(failed_tasks.c.resolution.is_(None))
    .limit(MOST_COUNTED)
    .subquery()
)
_JUDGED_BY: Final = (_ROW.state, _ROW.deaths, _ROW.executed_at, _ROW.finished_at, _ROW.task_type)
_NEWEST: Final = sa.select(_ROW.id, *_JUDGED_BY).order_by(_ROW.id.desc()).limit(NEWEST)
_NEW: Final = _NEWEST.subquery().c
_COUNTED: Final = sa.and_(
    _NEW.executed_at >= moment_of("since"),
    _NEW.state != State.SKIPPED.value,
    _NEW.task_type != SYSTEM,
)
_TOO_OFTEN: Final = sa.and_(
    _COUNTED,
    _NEW.deaths > sa.bindparam("retries"),
    sa.or_(_NEW.finished_at.is_(None), _NEW.finished_at >= moment_of("ended")),
)
_LEDGER: Final[sa.Select[Any]] = sa.select(
    sa.select(sa.func.count()).select_from(_UNRESOLVED).scalar_subquery().label("unresolved"),
    sa.func.count(sa.case((_COUNTED, 1))).label("runs"),
    sa.func.count(sa.case((sa.and_(_COUNTED, _NEW.deaths > 0), 1))).label("retried"),
    sa.func.count(sa.case((_TOO_OFTEN, 1))).label("too_often"),
    sa.func.max(sa.case((_TOO_OFTEN, _NEW.id))).label("worst"),
)

_RUN: Final = sa.select(_ROW.id).where(
    _ROW.scheduler_id == _ITS.id, is_of_due_instant(_ROW.execution_key), ~IS_STANDALONE
)
_IS_REPLAYED: Final = sa.exists().where(failed_tasks.c.execution_id == _ROW.id)
_OPEN: Final = _RUN.where(_ROW.finished_at.is_(None), ~_IS_REPLAYED).order_by(_ROW.id)
_ENDED: Final = _RUN.where(_ROW.finished_at.is_not(None), _ROW.state != State.SKIPPED.value)
_LAST_FIRST: Final = (_ROW.finished_at.desc(), _ROW.id.desc())

#: The first of each kind of runs of a schedule that there is.
_KINDS: Final[Mapping[str, sa.Select[Any]]] = {
    "waiting": _OPEN.where(_ROW.started_at.is_(None), _ROW.attempt == 1),
    "unfinished": _OPEN,
    "running": _OPEN.where(_ROW.state == State.RUNNING.value),
    "last": _ENDED.order_by(*_LAST_FIRST),
}
_SIGNS: Final[sa.Select[Any]] = (
    sa.select(
        *(_ITS.id, _ITS.name, _ITS.timezone, plans.c.next_due_at, plans.c.problem),
        *(found.limit(1).scalar_subquery().label(name) for name, found in _KINDS.items()),
    )
    .select_from(schedulers.outerjoin(plans, plans.c.scheduler_id == _ITS.id))
    .where(_ITS.id.in_(IDS))
)
#: What waits between two attempts does not run: each counts from its own start.
_ATTEMPTED: Final = executions.outerjoin(attempts, IS_LAST_ATTEMPT)
_TIMES: Final = (_ROW.id, _ROW.due_at, attempts.c.started_at, _ROW.finished_at, _ROW.state)
_RUNS: Final[sa.Select[Any]] = (
    sa.select(*_TIMES, outputs.c.stdout_bytes)
    .select_from(_ATTEMPTED.outerjoin(outputs, IS_LAST_OUTPUT))
    .where(_ROW.id.in_(IDS))
)
_USUAL: Final[sa.Select[Any]] = (
    sa.select(*_TIMES)
    .select_from(_ATTEMPTED)
    .where(_ROW.scheduler_id == sa.bindparam("scheduler"), _ROW.finished_at.is_not(None))
    .order_by(*_LAST_FIRST)
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
            found = dict(connection.execute(_LEDGER, asked).mappings().one())
            id_ = found.pop("worst")
            worst = find_executions(connection, BY_IDS, [id_]) if id_ else {}
        return Signs(**found, worst=worst.get(id_))

    @repeatable
    def schedule_signs(
        self, scheduler_ids: Collection[int], *, usual: Collection[int], now: datetime
    ) -> Sequence[ScheduleSigns]:
        found = list[ScheduleSigns]()
        with self._database.read("looking at schedules that may alert") as connection:
            for part in batches(sorted(scheduler_ids), _AT_ONCE):
                rows = connection.execute(_SIGNS, {"ids": part}).all()
                runs = _runs(connection, rows, now)
                found += (_signs(connection, row, runs, usual, now) for row in rows)
        return found

    @repeatable
    def of_no_file(
        self, refs: Collection[TaskRef], *, limit: int
    ) -> Mapping[int, tuple[str, TaskRef]]:
        columns = [_ITS[name] for name in (*COLUMN_OF_TYPE.values(), "task_type", "task_id")]
        asked = (
            sa.select(_ITS.id, _ITS.name, *columns)
            .where(_ITS.source.is_(None), _ITS.status == 1)
            .order_by(_ITS.id)
            .limit(limit)
        )
        with self._database.read("looking for schedules of no file") as connection:
            rows = connection.execute(asked).all()
        return {
            row.id: (display_name(row.name, row.id), ref)
            for row in rows
            if (ref := _ref(row)) is not None and ref in refs
        }


def _ref(row: sa.Row[Any]) -> TaskRef | None:
    named = [(type_, getattr(row, column)) for type_, column in COLUMN_OF_TYPE.items()]
    if isinstance(row.task_type, str):
        named.append((row.task_type, row.task_id))
    ways = [TaskRef(type_, number) for type_, number in named if isinstance(number, int)]
    return ways[0] if len(ways) == 1 else None


def _runs(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]], now: datetime
) -> Mapping[int, RunSigns]:
    ids = sorted({id_ for row in rows for name in _KINDS if (id_ := getattr(row, name))})
    found = dict[int, RunSigns]()
    for part in batches(ids, _AT_ONCE):
        for run in _ATTEMPT.readable(connection.execute(_RUNS, {"ids": part})):
            if run.due_at is None:
                continue  # another program's, in an adopted table
            output = run.stdout_bytes
            if output is None and run.finished_at and run.finished_at >= now - OUTPUT_LOOKED_FOR:
                output = 0  # what wrote nothing has no row; what is older may have been deleted
            found[run.id] = RunSigns(
                id=run.id,
                due_at=run.due_at,
                started_at=run.started_at,
                finished_at=run.finished_at,
                has_succeeded=run.state == State.SUCCEEDED.value,
                output=output,
            )
    return found


def _signs(
    connection: sa.Connection,
    row: sa.Row[Any],
    runs: Mapping[int, RunSigns],
    usual: Collection[int],
    now: datetime,
) -> ScheduleSigns:
    its = {name: runs.get(getattr(row, name)) for name in _KINDS}
    may_be_long = long_time(its["running"], now) or long_time(its["last"], now)
    is_due = row.next_due_at is not None and row.next_due_at <= now and row.problem is None
    return ScheduleSigns(
        scheduler_id=row.id,
        name=display_name(row.name, row.id),
        zone=_zone(row.timezone),
        unclaimed=row.next_due_at if is_due else None,
        usual=_usual(connection, row) if row.id in usual and may_be_long else (),
        **its,
    )


def _usual(connection: sa.Connection, its: sa.Row[Any]) -> Sequence[timedelta]:
    found = (
        run.finished_at - run.started_at
        for run in _ATTEMPT.readable(connection.execute(_USUAL, {"scheduler": its.id}))
        if run.state == State.SUCCEEDED.value
        and run.id != its.last
        and run.started_at is not None
        and run.finished_at >= run.started_at
    )
    return [*islice(found, USUAL_RUNS)]


def _zone(name: object) -> ZoneInfo:
    try:
        return find_zone(str(name or "UTC"))
    except ValueError:
        return ZoneInfo("UTC")
