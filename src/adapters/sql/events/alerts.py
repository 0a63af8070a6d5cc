"""Alerts in SQL: a handful of rows, and one SELECT a minute by which they are judged."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BindParameter,
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
from cronhare.domain.lifecycle.alerts import (
    CLEAR_AFTER,
    LOOKS_BACK,
    MOST_COUNTED,
    NEWEST,
    Alert,
    RaisedAlert,
    Rule,
    Signs,
    is_over,
)
from cronhare.domain.messages.nack_count import MOST
from cronhare.domain.schedules.task import SYSTEM
from cronhare.ports.alerts import AlertChanges
from cronhare.ports.clock import ClockPort

from ..mapping.execution_rows import BY_IDS, find_executions
from ..schema.tables import alerts, executions, failed_tasks
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable

#: The row that says when alerts were judged: no rule has this name.
_JUDGED: Final = "judged"

_NOW: Final[BindParameter[Any]] = bindparam("now", type_=UtcDateTime)
_BEGIN: Final = (
    update(alerts)
    .where(
        alerts.c.rule == _JUDGED,
        or_(
            alerts.c.held_at <= bindparam("before", type_=UtcDateTime),
            alerts.c.held_at > bindparam("ahead", type_=UtcDateTime),
        ),
    )
    .values(held_at=_NOW)
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


class SqlAlertStore:
    """Satisfies `AlertStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)

    @repeatable
    def begin(self, *, now: datetime, every: timedelta) -> bool:
        """See `AlertStorePort.begin`. A time ahead of ours is of a clock that was set back."""
        asked = {"now": now, "before": now - every, "ahead": now + every}
        with self._database.write("beginning to judge alerts") as connection:
            if connection.execute(_BEGIN, asked).rowcount == 1:
                return True
            there = connection.execute(select(alerts.c.rule).where(alerts.c.rule == _JUDGED))
            if there.first() is not None:
                return False
            _insert(connection, _JUDGED, now, {})
            return True

    @repeatable
    def signs(self, *, now: datetime, retries: int) -> Signs:
        """See `AlertStorePort.signs`."""
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
    def keep(self, held: Collection[Alert], *, now: datetime) -> AlertChanges:
        """See `AlertStorePort.keep`."""
        names = {each.rule.value for each in held}
        with self._database.write("keeping alerts") as connection:
            rows = connection.execute(select(alerts).where(alerts.c.rule != _JUDGED)).all()
            known = {row.rule for row in rows}
            old = [row.rule for row in rows if row.rule not in names and _is_over(row, now)]
            new = [each for each in held if each.rule.value not in known]
            for each in new:
                _insert(connection, each.rule.value, now, each.data)
            for name in names & known:
                connection.execute(update(alerts).where(alerts.c.rule == name).values(held_at=now))
            if old:
                connection.execute(delete(alerts).where(alerts.c.rule.in_(old)))
        return AlertChanges(raised=[each.rule.value for each in new], cleared=old)

    @repeatable
    def raised(self) -> Sequence[RaisedAlert]:
        """See `AlertStorePort.raised`. A row that a person spoilt, or made, is passed over."""
        ours = select(alerts).where(alerts.c.rule.in_(sorted(Rule))).order_by(alerts.c.rule)
        with self._database.read("reading alerts") as connection:
            rows = connection.execute(ours).all()
        return [alert for alert in map(_read, rows) if alert is not None]


def _insert(connection: Connection, rule: str, now: datetime, data: object) -> None:
    text = msgspec.json.encode(data).decode()
    connection.execute(
        insert(alerts), {"rule": rule, "raised_at": now, "held_at": now, "data": text}
    )


def _is_over(row: Row[Any], now: datetime) -> bool:
    held_at = row.held_at
    return not isinstance(held_at, datetime) or is_over(held_at, now)


def _read(row: Row[Any]) -> RaisedAlert | None:
    try:
        data = msgspec.json.decode(row.data, type=dict[str, Any])
    except (msgspec.DecodeError, TypeError, ValueError):
        return None
    if not isinstance(row.raised_at, datetime):
        return None
    return RaisedAlert(rule=row.rule, raised_at=row.raised_at, data=data)
