"""Alerts in SQL: a row for each that holds or did of late, and what they are judged by."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace
from cronhare.domain.lifecycle.alerts import (
    CLEAR_AFTER,
    CLEARED_KEPT,
    JUDGED_WITHIN,
    LOOKS_BACK,
    MOST_COUNTED,
    NEWEST,
    Alert,
    RaisedAlert,
    Signs,
    counts_as_held,
    is_forgotten,
    is_over,
    is_superseded,
    key_of,
)
from cronhare.domain.lifecycle.events import LONGEST_NAME
from cronhare.domain.messages.nack_count import MOST
from cronhare.domain.schedules.task import SYSTEM
from cronhare.ports.alerts import AlertChanges
from cronhare.ports.clock import ClockPort

from ..gauges import IS_ALERT, SystemSignsPart
from ..mapping.execution_rows import BY_IDS, find_executions
from ..mapping.own_rows import OwnTable
from ..schema.tables import alerts, executions, failed_tasks
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .alert_pages import rows_of
from .schedule_signs import ScheduleSignsPart

#: The row that says when judging those of a source began last, and when it ended last, as if it had
#: been raised by a rule of this name, which none has: it is held since, and over since. It was
#: raised when the one began that has ended last.
_JUDGED: Final = "judged"

#: Alerts that one statement names.
_AT_ONCE: Final = 500

#: When those of a source were judged last that never were.
_EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)

_ALERTS: Final = select(alerts).where(IS_ALERT).order_by(alerts.c.rule)

_REVISION: Final = select(
    func.count(),
    func.count(alerts.c.cleared_at),
    func.max(alerts.c.raised_at),
    func.max(alerts.c.cleared_at),
).where(IS_ALERT)

_NOW: Final[BindParameter[Any]] = bindparam("now", type_=UtcDateTime)
_BEGIN: Final = (
    update(alerts)
    .where(
        alerts.c.rule == bindparam("key"),
        or_(
            alerts.c.held_at <= bindparam("abandoned", type_=UtcDateTime),
            alerts.c.held_at > bindparam("ahead", type_=UtcDateTime),
            alerts.c.held_at == bindparam("given_up", type_=UtcDateTime),
            and_(
                alerts.c.held_at <= bindparam("before", type_=UtcDateTime),
                alerts.c.raised_at >= alerts.c.held_at,  # it has ended
            ),
        ),
    )
    .values(held_at=_NOW)
)
_JUDGEMENT: Final = select(alerts).where(alerts.c.rule == bindparam("key")).with_for_update()
_ENDED_AT: Final = select(alerts.c.cleared_at).where(alerts.c.rule == bindparam("key"))
_END: Final = (
    update(alerts)
    .where(alerts.c.rule == bindparam("key"))
    .values(raised_at=_NOW, cleared_at=bindparam("ended", type_=UtcDateTime))
)
#: What may change of one that holds, by the names of its parameters: those of columns are taken.
_CHANGED: Final = {f"new_{name}": name for name in ("data", "subject", "scheduler_id")}
_CHANGE: Final = (
    update(alerts)
    .where(alerts.c.rule == bindparam("key"))
    .values({column: bindparam(name) for name, column in _CHANGED.items()})
)
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
_RUN: Final = (
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
_COUNTS: Final = and_(
    _RUN.executed_at >= bindparam("since", type_=UtcDateTime),
    _RUN.state != State.SKIPPED.value,
    _RUN.task_type != SYSTEM,
)
_TOO_OFTEN: Final = and_(
    _COUNTS,
    _RUN.deaths.between(bindparam("more"), MOST),
    or_(
        _RUN.finished_at.is_(None),
        _RUN.finished_at >= bindparam("ended", type_=UtcDateTime),
    ),
)
_SIGNS: Final[Select[Any]] = select(
    _UNRESOLVED.label("unresolved"),
    func.count(case((_COUNTS, 1))).label("runs"),
    func.count(case((and_(_COUNTS, _RUN.deaths.between(1, MOST)), 1))).label("retried"),
    func.count(case((_TOO_OFTEN, 1))).label("too_often"),
    func.max(case((_TOO_OFTEN, _RUN.id))).label("worst"),
)


ALERT: Final = OwnTable(alerts)


class SqlAlertStore(SystemSignsPart, ScheduleSignsPart):
    """Satisfies `AlertStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(Database(engine, clock))

    @repeatable
    def begin(
        self,
        *,
        now: datetime,
        every: timedelta,
        source: str | None = None,
        instead_of: datetime | None = None,
    ) -> bool:
        """See `AlertStorePort.begin`. A time ahead of ours is of a clock that was set back."""
        key = key_of(_JUDGED, source or "", source)
        asked = {
            "now": now,
            "before": now - every,
            "abandoned": now - JUDGED_WITHIN * every,
            "ahead": now + every,
            "given_up": instead_of or _EVER,
            "key": key,
        }
        with self._database.write("beginning to judge alerts") as connection:
            if connection.execute(_BEGIN, asked).rowcount == 1:
                return True
            there = connection.execute(select(alerts.c.rule).where(alerts.c.rule == key))
            if there.first() is not None:
                return False
            row = RaisedAlert(key=key, raised_at=_EVER, held_at=now, data={}, source=source)
            connection.execute(insert(alerts), _values(row))
            return True

    @repeatable
    def signs(self, *, now: datetime, retries: int) -> Signs:
        asked = {"since": now - LOOKS_BACK, "more": retries + 1, "ended": now - CLEAR_AFTER}
        with self._database.read("looking for signs of trouble") as connection:
            found = connection.execute(_SIGNS, asked).one()
            worst = find_executions(connection, BY_IDS, [found.worst]) if found.worst else {}
        return Signs(
            unresolved=found.unresolved,
            runs=found.runs,
            retried=found.retried,
            too_often=found.too_often,
            worst=worst.get(found.worst),
        )

    @repeatable
    def keep(
        self,
        held: Collection[Alert],
        *,
        now: datetime,
        ended_at: datetime,
        source: str | None = None,
    ) -> AlertChanges:
        by_key = {each.key: each for each in held}
        judged = {"key": key_of(_JUDGED, source or "", source)}
        with self._database.write("keeping alerts") as connection:
            # Locked: others keep theirs afterwards.
            last = connection.execute(_JUDGEMENT, judged).one_or_none()
            if last is not None:
                if is_superseded(last.raised_at, last.held_at, now):
                    return AlertChanges()
                if counts_as_held(last.cleared_at, last.held_at, now):
                    _hold(connection, source, now)
                connection.execute(_END, {**judged, "now": now, "ended": ended_at})
            rows = {each.key: each for each in read_alerts(connection.execute(_ALERTS))}
            holding = {key for key in by_key if key in rows and rows[key].cleared_at is None}
            raised = [RaisedAlert.of(by_key[key], now) for key in by_key if key not in holding]
            over = [
                row
                for key, row in rows.items()
                if key not in by_key and row.cleared_at is None and _is_over(row, now, source)
            ]
            cleared = [attrs.evolve(row, cleared_at=now) for row in over]
            known = [each.key for each in raised if each.key in rows]
            forgotten = [key for key, row in rows.items() if is_forgotten(row, now)]
            _delete(connection, {*known, *forgotten} - holding)
            for key in _parts(sorted(holding)):
                these = alerts.c.rule.in_(key)
                connection.execute(update(alerts).where(these).values(held_at=now))
            for key in _parts([each.key for each in cleared]):
                these = alerts.c.rule.in_(key)
                connection.execute(update(alerts).where(these).values(cleared_at=now))
            changed = [*_changed((by_key[key], rows[key]) for key in sorted(holding))]
            if changed:
                connection.execute(_CHANGE, changed)
            if raised:
                connection.execute(insert(alerts), [_values(each) for each in raised])
        return AlertChanges(raised=raised, cleared=cleared)

    @repeatable
    def judged_at(self) -> datetime | None:
        with self._database.read("looking for when alerts were judged") as connection:
            return connection.scalar(_ENDED_AT, {"key": _JUDGED})

    @repeatable
    def revision(self) -> Hashable:
        """See `AlertStorePort.revision`: of two changes the second is the later one."""
        with self._database.read("looking for changes of alerts") as connection:
            return tuple(connection.execute(_REVISION).one())

    @repeatable
    def page(
        self, which: AlertFilter, *, after: AlertPlace | None, limit: int | None
    ) -> tuple[Sequence[RaisedAlert], bool]:
        most = None if limit is None else limit + 1
        with self._database.read("reading a page of alerts") as connection:
            found = read_alerts(rows_of(connection, which, after, most))
        return found[:limit], len(found) == most

    @repeatable
    def raised(self) -> Sequence[RaisedAlert]:
        return self._listed(alerts.c.cleared_at.is_(None))

    @repeatable
    def cleared(self) -> Sequence[RaisedAlert]:
        return self._listed(alerts.c.cleared_at.is_not(None))

    def _listed(self, which: ColumnElement[bool]) -> Sequence[RaisedAlert]:
        with self._database.read("reading alerts") as connection:
            return read_alerts(connection.execute(_ALERTS.where(which)))


def _hold(connection: Connection, source: str | None, now: datetime) -> None:
    its = alerts.c.source.is_(None) if source is None else alerts.c.source == source
    unjudged = update(alerts).where(IS_ALERT, its, alerts.c.cleared_at.is_(None))
    connection.execute(unjudged.values(held_at=now))


def _changed(holding: Iterable[tuple[Alert, RaisedAlert]]) -> Iterator[Mapping[str, Any]]:
    """Give what is written of alerts that do not hold as they did: most do, each minute."""
    for alert, known in holding:
        now = _values(known.held(alert, known.held_at or known.raised_at))
        if now != _values(known):
            yield {"key": alert.key, **{name: now[of] for name, of in _CHANGED.items()}}


def _delete(connection: Connection, keys: Collection[str]) -> None:
    for part in _parts(sorted(keys)):
        connection.execute(delete(alerts).where(alerts.c.rule.in_(part)))


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))


def _values(alert: RaisedAlert) -> dict[str, Any]:
    return {
        "rule": alert.key,
        "raised_at": alert.raised_at,
        "held_at": alert.held_at,
        "cleared_at": alert.cleared_at,
        "source": alert.source,
        "subject": alert.subject[:LONGEST_NAME],
        "scheduler_id": alert.scheduler_id,
        "data": msgspec.json.encode(alert.data).decode(),
    }


def _is_over(alert: RaisedAlert, now: datetime, source: str | None) -> bool:
    if alert.held_at is None:
        return True
    if alert.source == source:
        return is_over(alert.held_at, now)
    return alert.held_at < now - CLEARED_KEPT  # nobody with its file judges it any more


def read_alerts(rows: Iterable[Row[Any]]) -> list[RaisedAlert]:
    """Read the rows that fit."""
    found = []
    for row in ALERT.readable(rows):
        try:
            data = msgspec.json.decode(row.data, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            ALERT.tell(row, f"data: {error}")
            continue
        found.append(
            RaisedAlert(
                key=row.rule,
                raised_at=row.raised_at,
                held_at=row.held_at,
                cleared_at=row.cleared_at,
                subject=row.subject or "",
                source=row.source,
                scheduler_id=row.scheduler_id or 0,
                data=data,
            )
        )
    return found
