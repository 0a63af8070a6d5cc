"""Alerts in SQL: a row for each that holds or did of late, and who judged them last."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec
from sqlalchemy import (
    ColumnElement,
    Row,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from cronhare.domain.events.alerts import (
    CLEARED_KEPT,
    JUDGED_WITHIN,
    Alert,
    AlertFilter,
    AlertPlace,
    counts_as_held,
    is_forgotten,
    is_over,
    is_superseded,
)
from cronhare.domain.events.events import LONGEST_NAME
from cronhare.ports.events import AlertChanges

from ..database import Store, repeatable
from ..tables.executions import batches, exactly
from ..tables.tables import alerts, judgements
from ..tables.types import BrokenRow, OwnTable
from .signs import Signals

#: Alerts that one statement names.
_AT_ONCE: Final = 500

ALERT: Final = OwnTable(alerts)

_ALERTS: Final = select(alerts)

_REVISION: Final = select(
    func.count(),
    func.count(alerts.c.cleared_at),
    func.max(alerts.c.raised_at),
    func.max(alerts.c.cleared_at),
)


class SqlAlertStore(Store, Signals):
    """Satisfies `AlertStorePort`."""

    @repeatable
    def begin(
        self,
        *,
        now: datetime,
        every: timedelta,
        source: str | None = None,
        instead_of: datetime | None = None,
    ) -> bool:
        its, began_at = _of(source), judgements.c.began_at
        may_begin = or_(
            and_(began_at <= now - every, judgements.c.as_of >= began_at),  # that has ended
            began_at <= now - JUDGED_WITHIN * every,  # whoever judges was killed, or has failed
            began_at > now + every,  # by a clock that was set back since
            began_at == instead_of,
        )
        with self._database.write("beginning to judge alerts") as connection:
            begun = update(judgements).where(its, may_begin).values(began_at=now)
            if connection.execute(begun).rowcount == 1:
                return True
            if connection.execute(select(began_at).where(its)).first() is not None:
                return False
            connection.execute(insert(judgements), {"source": source or "", "began_at": now})
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
        by_key = {each.key: each for each in held}
        with self._database.write("keeping alerts") as connection:
            # Locked: others keep theirs afterwards.
            locked = select(judgements).where(_of(source)).with_for_update()
            last = connection.execute(locked).one_or_none()
            if last is not None:
                if last.as_of is not None and is_superseded(last.as_of, last.began_at, now):
                    return AlertChanges()
                if counts_as_held(last.ended_at, last.began_at, now):
                    its = alerts.c.source.is_(None) if source is None else alerts.c.source == source
                    unjudged = update(alerts).where(its, alerts.c.cleared_at.is_(None))
                    connection.execute(unjudged.values(held_at=now))
                ended = update(judgements).where(_of(source))
                connection.execute(ended.values(as_of=now, ended_at=ended_at))
            known = {each.key: each for each in _read(connection.execute(_ALERTS))}
            open_ = {key for key, each in known.items() if each.cleared_at is None}
            holding = sorted(open_ & by_key.keys())
            same = {key for key in holding if _is_same(known[key], by_key[key])}
            raised = [
                attrs.evolve(each, raised_at=now, held_at=now)
                for key, each in by_key.items()
                if key not in open_
            ]
            cleared = [
                attrs.evolve(known[key], cleared_at=now)
                for key in sorted(open_ - by_key.keys())
                if _is_over(known[key], now, source)
            ]
            gone = {each.key for each in raised}  # it may be over, or broken
            gone |= {key for key, each in known.items() if is_forgotten(each, now)}
            for change, keys in (
                (delete(alerts), gone),
                (update(alerts).values(held_at=now), same),
                (update(alerts).values(cleared_at=now), [each.key for each in cleared]),
            ):
                for part in batches(sorted(keys), _AT_ONCE):
                    connection.execute(change.where(alerts.c.rule.in_(part)))
            for key in holding:
                if key not in same:
                    new = attrs.evolve(by_key[key], raised_at=known[key].raised_at, held_at=now)
                    changed = update(alerts).where(alerts.c.rule == key)
                    connection.execute(changed.values(_values(new)))
            if raised:
                connection.execute(insert(alerts), [_values(each) for each in raised])
        return AlertChanges(raised=raised, cleared=cleared)

    @repeatable
    def judged_at(self) -> datetime | None:
        with self._database.read("looking for when alerts were judged") as connection:
            return connection.scalar(select(judgements.c.ended_at).where(_of(None)))

    @repeatable
    def revision(self) -> Hashable:
        with self._database.read("looking for changes of alerts") as connection:
            return tuple(connection.execute(_REVISION).one())  # of two the second is the later one

    @repeatable
    def page(
        self, which: AlertFilter, *, after: AlertPlace | None, limit: int | None
    ) -> tuple[Sequence[Alert], bool]:
        is_over = case((alerts.c.cleared_at.is_(None), 0), else_=1)
        at = func.coalesce(alerts.c.cleared_at, alerts.c.raised_at)
        rules = sorted(which.rules)
        of_subjects = (alerts.c.rule.like(f"{rule}:%") for rule in rules)
        asked = select(alerts).where(or_(alerts.c.rule.in_(rules), *of_subjects))
        if not which.cleared:
            asked = asked.where(alerts.c.cleared_at.is_(None))
        if which.schedule is not None:
            asked = asked.where(
                exactly(alerts.c.subject, which.schedule), alerts.c.scheduler_id > 0
            )
        if after is not None:
            later = or_(at < after.at, and_(at == after.at, alerts.c.rule > after.key))
            part = int(after.over)
            asked = asked.where(or_(is_over > part, and_(is_over == part, later)))
        most = None if limit is None else limit + 1
        asked = asked.order_by(is_over, at.desc(), alerts.c.rule).limit(most)
        with self._database.read("reading a page of alerts") as connection:
            rows = connection.execute(asked).all()
        found = _read(rows)
        return found[:limit], bool(found) and len(rows) == most


def _of(source: str | None) -> ColumnElement[bool]:
    return judgements.c.source == (source or "")


def _is_over(alert: Alert, now: datetime, source: str | None) -> bool:
    held_at = alert.held_at or alert.raised_at
    if alert.source == source:
        return is_over(held_at, now)
    return held_at < now - CLEARED_KEPT  # nobody with its file judges it any more


def _is_same(known: Alert, alert: Alert) -> bool:
    """Whether it holds as it did."""
    subject = alert.subject[:LONGEST_NAME]
    return (known.data, known.subject, known.scheduler_id) == (
        alert.data,
        subject,
        alert.scheduler_id,
    )


def _values(alert: Alert) -> dict[str, Any]:
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


def _read(rows: Iterable[Row[Any]]) -> list[Alert]:
    """Read the rows that fit; they have all columns."""
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
