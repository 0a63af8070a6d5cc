"""Alerts in SQL: a row for each that holds or did of late, who judged them last, and by what."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

import attrs
import msgspec
import sqlalchemy as sa

from cronhare.domain.cron.timeline import find_zone
from cronhare.domain.events.alerts import (
    CLEAR_AFTER,
    JUDGED_WITHIN,
    Alert,
    is_forgotten,
    is_over,
    is_superseded,
    nobody_judged,
)
from cronhare.domain.events.events import LONGEST_NAME
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
from cronhare.ports.events import AlertChanges, AlertFilter, AlertPlace

from ..database import Store, repeatable
from ..gauges import SystemSignsPart
from ..tables.executions import (
    BY_IDS,
    IS_LAST_ATTEMPT,
    IS_LAST_OUTPUT,
    IS_STANDALONE,
    batches,
    display_name,
    exactly,
    find_executions,
    is_of_due_instant,
)
from ..tables.tables import (
    IDS,
    alerts,
    attempts,
    executions,
    failed_tasks,
    judgements,
    outputs,
    plans,
    schedulers,
)
from ..tables.types import BrokenRow, OwnTable, moment_of

#: Alerts, schedules or runs that one statement names.
_AT_ONCE: Final = 500

ALERT: Final = OwnTable(alerts)

_ROW: Final = alerts.c
_JUDGED: Final = judgements.c

_REVISION: Final = sa.select(
    sa.func.count(),
    sa.func.count(_ROW.cleared_at),
    sa.func.max(_ROW.raised_at),
    sa.func.max(_ROW.cleared_at),
)


# What alerts are judged by: a few numbers of the ledger, and what is known of schedules. All is
# found by indexes, however long the history is.

_EXECUTION: Final = executions.c
_ITS: Final = schedulers.c

_UNRESOLVED: Final = (
    sa.select(failed_tasks.c.id)
    .where(failed_tasks.c.resolution.is_(None))
    .limit(MOST_COUNTED)
    .subquery()
)
_JUDGED_BY: Final = (
    _EXECUTION.state,
    _EXECUTION.deaths,
    _EXECUTION.executed_at,
    _EXECUTION.finished_at,
    _EXECUTION.task_type,
)
_NEWEST: Final = sa.select(_EXECUTION.id, *_JUDGED_BY).order_by(_EXECUTION.id.desc()).limit(NEWEST)
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

_RUN: Final = sa.select(_EXECUTION.id).where(
    _EXECUTION.scheduler_id == _ITS.id, is_of_due_instant(_EXECUTION.execution_key), ~IS_STANDALONE
)
_IS_REPLAYED: Final = sa.exists().where(failed_tasks.c.execution_id == _EXECUTION.id)
_OPEN: Final = _RUN.where(_EXECUTION.finished_at.is_(None), ~_IS_REPLAYED).order_by(_EXECUTION.id)
_ENDED: Final = _RUN.where(
    _EXECUTION.finished_at.is_not(None), _EXECUTION.state != State.SKIPPED.value
)
_LAST_FIRST: Final = (_EXECUTION.finished_at.desc(), _EXECUTION.id.desc())

#: The first of each kind of runs of a schedule that there is.
_KINDS: Final[Mapping[str, sa.Select[Any]]] = {
    "waiting": _OPEN.where(_EXECUTION.started_at.is_(None), _EXECUTION.attempt == 1),
    "unfinished": _OPEN,
    "running": _OPEN.where(_EXECUTION.state == State.RUNNING.value),
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
_TIMES: Final = (
    _EXECUTION.id,
    _EXECUTION.due_at,
    attempts.c.started_at,
    _EXECUTION.finished_at,
    _EXECUTION.state,
)
_RUNS: Final[sa.Select[Any]] = (
    sa.select(*_TIMES, outputs.c.stdout_bytes)
    .select_from(_ATTEMPTED.outerjoin(outputs, IS_LAST_OUTPUT))
    .where(_EXECUTION.id.in_(IDS))
)
_USUAL: Final[sa.Select[Any]] = (
    sa.select(*_TIMES)
    .select_from(_ATTEMPTED)
    .where(
        _EXECUTION.scheduler_id == sa.bindparam("scheduler"), _EXECUTION.finished_at.is_not(None)
    )
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


# The alerts themselves


class SqlAlertStore(Store, Signals):
    """Satisfies `AlertStorePort`."""

    @repeatable
    def begin(self, *, now: datetime, every: timedelta, source: str | None = None) -> bool:
        its, began_at = _of(source), _JUDGED.began_at
        may_begin = sa.or_(
            sa.and_(began_at <= now - every, _JUDGED.as_of >= began_at),  # that has ended
            began_at <= now - JUDGED_WITHIN * every,  # whoever judges was killed, or has failed
            began_at > now + every,  # by a clock that was set back since
        )
        with self._database.write("beginning to judge alerts") as connection:
            begun = sa.update(judgements).where(its, may_begin).values(began_at=now)
            if connection.execute(begun).rowcount == 1:
                return True
            if connection.execute(sa.select(began_at).where(its)).first() is not None:
                return False
            connection.execute(sa.insert(judgements), {"source": source or "", "began_at": now})
            return True

    @repeatable
    def keep(
        self,
        held: Collection[Alert],
        *,
        now: datetime,
        ended_at: datetime,
        source: str | None = None,
    ) -> AlertChanges:
        with self._database.write("keeping alerts") as connection:
            # Locked: others keep theirs afterwards.
            locked = sa.select(judgements).where(_of(source)).with_for_update()
            if (last := connection.execute(locked).one_or_none()) is not None:
                if last.as_of is not None and is_superseded(last.as_of, last.began_at, now):
                    return AlertChanges()
                if nobody_judged(last.ended_at, now):  # it is over once it is seen so for long
                    its = _ROW.source.is_(None) if source is None else _ROW.source == source
                    unjudged = sa.update(alerts).where(its, _ROW.cleared_at.is_(None))
                    connection.execute(unjudged.values(held_at=now))
                ended = sa.update(judgements).where(_of(source))
                connection.execute(ended.values(as_of=now, ended_at=ended_at))
            known = {each.key: each for each in _read(connection.execute(sa.select(alerts)))}
            held_before = {key for key, each in known.items() if each.cleared_at is None}
            new = dict[str, Alert]()
            same = list[str]()
            for each in held:
                old = known[each.key] if each.key in held_before else None
                if old is None or _said(old) != _said(each):
                    raised_at = now if old is None else old.raised_at
                    new[each.key] = attrs.evolve(each, raised_at=raised_at, held_at=now)
                else:
                    same.append(each.key)
            over = held_before.difference(new, same)
            cleared = [known[key] for key in over if is_over(known[key], now, source)]
            gone = {key for key, each in known.items() if is_forgotten(each, now)}
            for change, keys in (
                (sa.delete(alerts), gone.union(new)),  # what is new may be over, or broken
                (sa.update(alerts).values(held_at=now), same),
                (sa.update(alerts).values(cleared_at=now), [each.key for each in cleared]),
            ):
                for part in batches(sorted(keys), _AT_ONCE):
                    connection.execute(change.where(_ROW.rule.in_(part)))
            if new:
                connection.execute(sa.insert(alerts), [_values(each) for each in new.values()])
        return AlertChanges(
            raised=[each for key, each in new.items() if key not in held_before],
            cleared=[attrs.evolve(each, cleared_at=now) for each in cleared],
        )

    @repeatable
    def judged_at(self) -> datetime | None:
        with self._database.read("looking for when alerts were judged") as connection:
            return connection.scalar(sa.select(_JUDGED.ended_at).where(_of(None)))

    @repeatable
    def revision(self) -> Hashable:
        with self._database.read("looking for changes of alerts") as connection:
            return tuple(connection.execute(_REVISION).one())  # of two the second is the later one

    @repeatable
    def page(
        self, which: AlertFilter, *, after: AlertPlace | None, limit: int | None
    ) -> tuple[Sequence[Alert], bool]:
        is_over = sa.case((_ROW.cleared_at.is_(None), 0), else_=1)
        at = sa.func.coalesce(_ROW.cleared_at, _ROW.raised_at)
        rules = sorted(which.rules)
        of_subjects = (_ROW.rule.like(f"{rule}:%") for rule in rules)
        asked = sa.select(alerts).where(sa.or_(_ROW.rule.in_(rules), *of_subjects))
        if not which.cleared:
            asked = asked.where(_ROW.cleared_at.is_(None))
        if which.schedule is not None:
            asked = asked.where(exactly(_ROW.subject, which.schedule), _ROW.scheduler_id > 0)
        if after is not None:
            later = sa.or_(at < after.at, sa.and_(at == after.at, _ROW.rule > after.key))
            part = int(after.over)
            asked = asked.where(sa.or_(is_over > part, sa.and_(is_over == part, later)))
        most = None if limit is None else limit + 1
        asked = asked.order_by(is_over, at.desc(), _ROW.rule).limit(most)
        with self._database.read("reading a page of alerts") as connection:
            rows = connection.execute(asked).all()
        found = _read(rows)
        return found[:limit], bool(found) and len(rows) == most


def _of(source: str | None) -> sa.ColumnElement[bool]:
    return _JUDGED.source == (source or "")


def _said(alert: Alert) -> tuple[object, ...]:
    return alert.data, alert.subject[:LONGEST_NAME], alert.scheduler_id


def _values(alert: Alert) -> dict[str, Any]:
    data, subject, _ = _said(alert)
    fields = attrs.asdict(alert, recurse=False)
    fields |= {"subject": subject, "data": msgspec.json.encode(data).decode()}
    return {"rule": fields.pop("key"), **fields}


def _read(rows: Iterable[sa.Row[Any]]) -> list[Alert]:
    found = []
    for row in ALERT.readable(rows):
        fields = msgspec.structs.asdict(row)
        try:
            data = msgspec.json.decode(fields.pop("data"), type=dict[str, Any])
        except msgspec.DecodeError as error:
            BrokenRow(ALERT, row, f"data: {error}").tell()
            continue
        found.append(Alert(key=fields.pop("rule"), data=data, **fields))
    return found
