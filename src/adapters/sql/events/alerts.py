"""Alerts in SQL: a row for each that holds or did of late, and who judged them last."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec
import sqlalchemy as sa

from cronhare.domain.events.alerts import (
    JUDGED_WITHIN,
    Alert,
    is_forgotten,
    is_over,
    is_superseded,
    nobody_judged,
)
from cronhare.domain.events.events import LONGEST_NAME
from cronhare.ports.events import AlertChanges, AlertFilter, AlertPlace

from ..database import Store, repeatable
from ..tables.executions import batches, exactly
from ..tables.tables import alerts, judgements
from ..tables.types import BrokenRow, OwnTable
from .signs import Signals

#: Alerts that one statement names.
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
