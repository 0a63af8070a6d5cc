"""The outbox in SQL: what is to be told to which target, and what came of telling it."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import attrs
import msgspec
import sqlalchemy as sa
from sqlalchemy import Engine

from cronhare.application.logs import say
from cronhare.domain.events.events import Event
from cronhare.domain.events.outbox import (
    EXPIRES_AFTER,
    UNTOLD,
    OutboxRow,
    OutboxState,
    expected_after,
    without_repeats,
)
from cronhare.ports.events import Expired
from cronhare.ports.system import ClockPort

from ..database import STEP, Store, change_some, repeatable, repeatable_unless_locked
from ..dialect import Cooldown, Locked
from ..tables.executions import batches
from ..tables.tables import failed_tasks, outbox
from ..tables.types import OwnTable
from ..writing import REFUSED, Written, write_each
from .findings import Findings

log = logging.getLogger(__name__)

#: Rows that one statement inserts; targets, and beginnings of keys, that one asks for.
_INSERTED_AT_ONCE: Final = 500
_ASKED_AT_ONCE: Final = 32


DELIVERY: Final = OwnTable(outbox)

_ROW: Final = outbox.c
_WRITTEN: Final = [column.name for column in _ROW if column.name != "id"]
_READ: Final = sa.select(outbox)
_IS_WAITING: Final = _ROW.state == OutboxState.WAITING.value
_IS_EXPECTED: Final = _ROW.state == OutboxState.EXPECTED.value
_IS_UNTOLD: Final = _ROW.state.in_([each.value for each in UNTOLD])


class SqlEventStore(Store, Findings):
    """Satisfies `EventStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(engine, clock)
        self._resting = Cooldown()

    def add(self, rows: Sequence[OutboxRow], *, now: datetime) -> bool:
        @repeatable_unless_locked
        def insert(part: Sequence[OutboxRow]) -> Written[OutboxRow]:
            with self._database.write("adding events") as connection:
                added = _insert_new(connection, part)
            return Written((), changed=added > 0)

        def refused(row: OutboxRow, why: Exception) -> Sequence[OutboxRow]:
            self._let_rest(row, why, now)
            return ()

        resting = self._resting.at(now)
        new = [row for row in rows if _key(row) not in resting]
        return not write_each(new, insert, refused=refused, locked=lambda row: [row])

    def announce(
        self,
        rows: Mapping[int, Sequence[OutboxRow]],
        *,
        now: datetime,
        until: datetime | None,
        once: Collection[str] = (),
    ) -> int:
        @repeatable_unless_locked
        def take(part: Sequence[int]) -> Written[int]:
            still_due = (
                sa.select(failed_tasks.c.id)
                .where(failed_tasks.c.id.in_(part), failed_tasks.c.event_at <= now)
                .with_for_update(skip_locked=True)
            )
            with self._database.write("announcing events") as connection:
                if taken := list(connection.scalars(still_due)):
                    these = sa.update(failed_tasks).where(failed_tasks.c.id.in_(taken))
                    connection.execute(these.values(event_at=until))
                    wanted = [each for id_ in taken for each in rows[id_]]
                    _insert_new(connection, _without_known(connection, wanted, once))
                return Written(taken, changed=bool(taken))

        def refused(id_: int, why: Exception) -> Sequence[int]:
            say(log, logging.ERROR, "event.refused", f"Nobody is told of failure {id_}: {why}")
            this = sa.update(failed_tasks).where(failed_tasks.c.id == id_)
            with suppress(*REFUSED, Locked), self._database.write("leaving an event") as connection:
                connection.execute(this.values(event_at=None))
            return ()

        return len(write_each(sorted(rows), take, refused=refused, locked=lambda _: ()))

    @repeatable
    def waiting(self, targets: Collection[str], *, source: str) -> Mapping[str, int]:
        counts = (
            sa.select(_ROW.target, sa.func.count().label("rows"))
            .where(_IS_WAITING, _ROW.target.in_(sorted(targets)), _ROW.source == source)
            .group_by(_ROW.target)
        )
        with self._database.read("counting events") as connection:
            return {row.target: row.rows for row in connection.execute(counts)}

    @repeatable
    def due(self, targets: Collection[str], *, source: str, due_by: datetime) -> Collection[str]:
        found = list[str]()
        with self._database.read("looking for events") as connection:
            # A look at the index for each of them, in one statement.
            for part in batches(sorted(targets), _ASKED_AT_ONCE):
                looks = [
                    _due_for(target, source, due_by)
                    .order_by(None)
                    .limit(1)
                    .scalar_subquery()
                    .label(f"of_{place}")
                    for place, target in enumerate(part)
                ]
                row = connection.execute(sa.select(*looks)).one()
                found += [target for target, id_ in zip(part, row, strict=True) if id_ is not None]
        return found

    @repeatable
    def pending(
        self, target: str, *, source: str, due_by: datetime, most: int
    ) -> Mapping[str, int]:
        due = _due_for(target, source, due_by).add_columns(_ROW.event).limit(most).subquery()
        counts = sa.select(due.c.event, sa.func.count().label("rows")).group_by(due.c.event)
        with self._database.read("counting events that are due") as connection:
            return {row.event: row.rows for row in connection.execute(counts)}

    @repeatable
    def take(
        self,
        target: str,
        *,
        source: str,
        now: datetime,
        lease: timedelta,
        node: str,
        limit: int,
        kind: str | None = None,
        due_by: datetime | None = None,
    ) -> Sequence[OutboxRow]:
        due = _due_for(target, source, due_by or now)
        if kind is not None:
            due = due.where(_ROW.event == kind)
        with self._database.write("taking events") as connection:
            ids = list(connection.scalars(due.limit(limit).with_for_update(skip_locked=True)))
            if not ids:
                return ()
            these = _ROW.id.in_(ids)
            taken = {"owner": node, "tries": _ROW.tries + 1, "next_try_at": now + lease}
            connection.execute(sa.update(outbox).where(these).values(taken))
            rows = _read(connection.execute(_READ.where(these)))
            return sorted(rows, key=lambda one: ids.index(one.id))

    @repeatable
    def settle(
        self,
        row: OutboxRow,
        state: OutboxState,
        *,
        now: datetime,
        next_try_at: datetime | None = None,
        error: str | None = None,
    ) -> bool:
        is_over = state is not OutboxState.WAITING
        is_this_try = sa.and_(_ROW.id == row.id, _ROW.owner == row.owner, _ROW.tries == row.tries)
        settled = sa.update(outbox).where(_IS_WAITING, is_this_try)
        settled = settled.values(
            state=state.value,
            next_try_at=None if is_over else next_try_at,
            finished_at=now if is_over else None,
            last_error=error,
        )
        with self._database.write("noting what came of an event") as connection:
            return connection.execute(settled).rowcount == 1

    @repeatable
    def tell_anew(self, rows: Collection[OutboxRow], *, before: datetime, now: datetime) -> int:
        new = {_key(row): attrs.evolve(row, occurred_at=now) for row in rows}
        its = sa.select(_ROW.id, _ROW.event_key, _ROW.target)
        given_up = its.where(_IS_UNTOLD, _ROW.finished_at < before)
        with self._database.read("looking for who was given up") as connection:
            found = {
                row.id: new[row.event_key, row.target]
                for keys in batches(sorted({key for key, _ in new}), STEP)
                for row in connection.execute(given_up.where(_ROW.event_key.in_(keys)))
                if (row.event_key, row.target) in new
            }
        if not found:  # most often
            return 0
        with self._database.write("telling anew who was given up") as connection:
            # In one order, so that two do not deadlock.
            anew = (
                sa.update(outbox).where(_ROW.id == id_, _IS_UNTOLD).values(_values(found[id_]))
                for id_ in sorted(found)[:STEP]
            )
            return sum(connection.execute(each).rowcount for each in anew)

    @repeatable
    def expected(self, *, source: str, after: int, limit: int) -> Sequence[OutboxRow]:
        asked = (
            _READ.where(_IS_EXPECTED, _ROW.source == source, _ROW.id > after)
            .order_by(_ROW.id)
            .limit(limit)
        )
        with self._database.read("looking for recoveries") as connection:
            return _read(connection.execute(asked))

    def recover(self, expected: OutboxRow, event: Event, *, now: datetime) -> bool:
        # A bad end that was announced meanwhile is after the success that was found.
        this = sa.and_(_ROW.id == expected.id, _IS_EXPECTED)
        still = sa.select(_ROW.id).where(this, _ROW.occurred_at == expected.occurred_at)
        told = sa.select(_ROW.id).where(_ROW.event_key == event.id, _ROW.target == expected.target)
        row = OutboxRow.of(event, expected.target, source=expected.source, now=now)

        @repeatable
        def tell() -> bool:
            with self._database.write("telling of a recovery") as connection:
                if connection.scalar(still.with_for_update(skip_locked=True)) is None:
                    return False
                if connection.scalar(told) is not None:
                    connection.execute(sa.delete(outbox).where(this))
                    return False
                connection.execute(sa.update(outbox).where(this).values(_values(row)))
                return True

        try:
            return _key(expected) not in self._resting.at(now) and tell()
        except (*REFUSED, Locked) as why:
            self._let_rest(expected, why, now)
            return False

    @repeatable
    def expire(
        self, *, before: datetime, kept_since: datetime, expected_since: datetime, now: datetime
    ) -> Expired:
        is_untaken = sa.and_(
            failed_tasks.c.event_at.is_not(None), failed_tasks.c.failed_at < before
        )
        # A try that is under way, or is to come, is noted by whoever makes it.
        is_nobodys = sa.or_(
            _ROW.owner.is_(None), _ROW.next_try_at.is_(None), _ROW.next_try_at <= now
        )
        is_old = sa.and_(_IS_WAITING, _ROW.occurred_at < before, is_nobodys)
        ended_at = sa.func.coalesce(_ROW.finished_at, _ROW.occurred_at)
        is_forgotten = sa.or_(
            sa.and_(_IS_EXPECTED, ended_at < expected_since),
            sa.and_(~_IS_WAITING, ~_IS_EXPECTED, ended_at < kept_since),
        )
        expired = {"state": OutboxState.EXPIRED.value, "finished_at": now, "next_try_at": None}
        with self._database.write("giving up old events") as connection:
            failures = change_some(connection, failed_tasks, is_untaken, {"event_at": None})
            rows = change_some(connection, outbox, is_old, expired)
            deleted = change_some(connection, outbox, is_forgotten, None)
        more = max(failures, rows, deleted) == STEP
        return Expired(failures=failures, rows=rows, more=more)

    @repeatable
    def deliveries(self, beginnings: Collection[str]) -> Sequence[OutboxRow]:
        found = list[OutboxRow]()
        with self._database.read("looking for who was told") as connection:
            for part in batches(sorted(beginnings), _ASKED_AT_ONCE):
                ranges = (_ROW.event_key.between(begins, f"{begins}g") for begins in part)
                found += _read(connection.execute(_READ.where(sa.or_(*ranges))))
        # In a statement that orders them SQLite walks all rows by their ids.
        return sorted(found, key=attrgetter("id"))

    @repeatable
    def failing(self, target: str, *, source: str) -> OutboxRow | None:
        is_its = sa.and_(_ROW.target == target, _ROW.source == source)
        has_failed = sa.and_(_ROW.tries > 0, _ROW.last_error.is_not(None))
        asked = _READ.where(_IS_WAITING, is_its, has_failed)
        asked = asked.order_by(_ROW.next_try_at.desc()).limit(1)
        with self._database.read("looking for why a target is not told") as connection:
            return next(iter(_read(connection.execute(asked))), None)

    @repeatable
    def rows(
        self, *, states: Collection[OutboxState] = (), schedule: str | None = None, limit: int
    ) -> Sequence[OutboxRow]:
        asked = _READ.order_by(_ROW.id.desc()).limit(limit)
        if states:
            asked = asked.where(_ROW.state.in_([each.value for each in states]))
        if schedule is not None:
            asked = asked.where(_ROW.schedule_name == schedule)
        with self._database.read("listing events") as connection:
            return _read(connection.execute(asked))

    def _let_rest(self, row: OutboxRow, why: Exception, now: datetime) -> None:
        text = f"{row.target} is not told of {row.event_key}: {why}"
        say(log, logging.ERROR, "event.refused", text, schedule=row.schedule_name)
        self._resting.note(_key(row), now)


def _key(row: OutboxRow) -> tuple[str, str]:
    return row.event_key, row.target


def _values(row: OutboxRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _WRITTEN}


def _due_for(target: str, source: str, due_by: datetime) -> sa.Select[Any]:
    return (
        sa.select(_ROW.id)
        .where(
            _IS_WAITING,
            _ROW.target == target,
            _ROW.next_try_at <= due_by,
            _ROW.occurred_at >= due_by - EXPIRES_AFTER,
            _ROW.source == source,
        )
        .order_by(_ROW.next_try_at, _ROW.id)
    )


def _read(rows: Iterable[sa.Row[Any]]) -> list[OutboxRow]:
    return [OutboxRow(**msgspec.structs.asdict(each)) for each in DELIVERY.readable(rows)]


def _insert_new(connection: sa.Connection, wanted: Sequence[OutboxRow]) -> int:
    """Insert what is not there; what another has just added raises, to be repeated."""
    added = 0
    for part in batches(wanted, _INSERTED_AT_ONCE):
        new = {_key(one): one for one in part}
        keys = sorted({key for key, _ in new})
        asked = sa.select(_ROW.event_key, _ROW.target).where(_ROW.event_key.in_(keys))
        for row in connection.execute(asked):
            new.pop((row.event_key, row.target), None)
        if new:
            connection.execute(sa.insert(outbox), [_values(one) for one in new.values()])
        added += len(new)
    return added


def _without_known(
    connection: sa.Connection, wanted: Sequence[OutboxRow], once: Collection[str]
) -> Sequence[OutboxRow]:
    """Leave out what targets told *once* know, and recoveries that are expected already.

    These are expected after the later bad end from now on.
    """
    hoped = {one.scheduler_id for one in wanted if one.state == OutboxState.EXPECTED}
    if not hoped:
        return wanted
    expected = (
        sa.select(_ROW.id, _ROW.event_key, _ROW.scheduler_id, _ROW.target)
        .where(_IS_EXPECTED, _ROW.scheduler_id.in_(sorted(hoped)))
        .with_for_update()
    )
    there = {(row.scheduler_id, row.target): row for row in connection.execute(expected)}
    last = {place: expected_after(row.event_key) for place, row in there.items()}
    told = sa.select(_ROW.scheduler_id, _ROW.target, _ROW.event_key).where(
        _ROW.event_key.in_(sorted({last[place] for place in last if place[1] in once})),
        ~_IS_UNTOLD,
    )
    known = {
        (row.scheduler_id, row.target): row.event_key
        for row in connection.execute(told)
        if last.get((row.scheduler_id, row.target)) == row.event_key
    }
    left = without_repeats(wanted, once=once, known=known)
    latest = {one.place: one for one in left if one.state == OutboxState.EXPECTED}
    for place, row in there.items():
        if (one := latest.pop(place, None)) is not None:
            # One that was left to wait is announced after those that came later.
            later = sa.update(outbox).where(_ROW.id == row.id, _ROW.occurred_at <= one.occurred_at)
            names = ("event_key", "occurred_at", "execution_id")
            connection.execute(later.values({name: getattr(one, name) for name in names}))
    return [*(one for one in left if one.state != OutboxState.EXPECTED), *latest.values()]
