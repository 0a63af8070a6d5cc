"""The outbox in SQL: what is to be told to which target, and what came of telling it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import msgspec
from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from cronhare.domain.events.events import Event
from cronhare.domain.events.outbox import (
    EXPIRES_AFTER,
    UNTOLD,
    OutboxRow,
    OutboxState,
    Place,
    expected_after,
    without_repeats,
)
from cronhare.domain.nodes import CLOCKS_DIFFER
from cronhare.ports.events import Expired

from ..database import STEP, Store, change_some, repeatable
from ..tables.executions import batches
from ..tables.tables import failed_tasks, outbox
from ..tables.types import OwnTable
from .findings import Findings

#: Rows that one statement inserts; targets, and beginnings of keys, that one asks for.
_INSERTED_AT_ONCE: Final = 500
_ASKED_AT_ONCE: Final = 32

DELIVERY: Final = OwnTable(outbox)

_WRITTEN: Final = [column.name for column in outbox.c if column.name != "id"]
_READ: Final = select(outbox)
_IS_WAITING: Final = outbox.c.state == OutboxState.WAITING.value
_IS_EXPECTED: Final = outbox.c.state == OutboxState.EXPECTED.value
_OPEN: Final = [OutboxState.WAITING.value, OutboxState.EXPECTED.value]
_IS_UNTOLD: Final = outbox.c.state.in_([each.value for each in UNTOLD])


class SqlEventStore(Store, Findings):
    """Satisfies `EventStorePort`."""

    @repeatable
    def add(self, rows: Sequence[OutboxRow]) -> int:
        with self._database.write("adding events") as connection:
            return _insert_new(connection, rows)

    @repeatable
    def announce(
        self,
        rows: Mapping[int, Sequence[OutboxRow]],
        *,
        now: datetime,
        until: datetime | None,
        once: Collection[str] = (),
    ) -> int:
        still_due = (
            select(failed_tasks.c.id)
            .where(failed_tasks.c.id.in_(sorted(rows)), failed_tasks.c.event_at <= now)
            .with_for_update(skip_locked=True)
        )
        with self._database.write("announcing events") as connection:
            taken = list(connection.scalars(still_due))
            if not taken:
                return 0
            these = update(failed_tasks).where(failed_tasks.c.id.in_(taken))
            connection.execute(these.values(event_at=until))
            wanted = [each for id_ in taken for each in rows[id_]]
            _insert_new(connection, _without_known(connection, wanted, once))
            return len(taken)

    @repeatable
    def waiting(self, targets: Collection[str], *, source: str) -> Mapping[str, int]:
        counts = (
            select(outbox.c.target, func.count().label("rows"))
            .where(_IS_WAITING, outbox.c.target.in_(sorted(targets)), outbox.c.source == source)
            .group_by(outbox.c.target)
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
                row = connection.execute(select(*looks)).one()
                found += [target for target, id_ in zip(part, row, strict=True) if id_ is not None]
        return found

    @repeatable
    def pending(
        self, target: str, *, source: str, due_by: datetime, most: int
    ) -> Mapping[str, int]:
        due = _due_for(target, source, due_by).add_columns(outbox.c.event).limit(most).subquery()
        counts = select(due.c.event, func.count().label("rows")).group_by(due.c.event)
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
            due = due.where(outbox.c.event == kind)
        with self._database.write("taking events") as connection:
            ids = list(connection.scalars(due.limit(limit).with_for_update(skip_locked=True)))
            if not ids:
                return ()
            these = outbox.c.id.in_(ids)
            taken = {"owner": node, "tries": outbox.c.tries + 1, "next_try_at": now + lease}
            connection.execute(update(outbox).where(these).values(taken))
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
        is_this_try = and_(
            outbox.c.id == row.id, outbox.c.owner == row.owner, outbox.c.tries == row.tries
        )
        settled = update(outbox).where(_IS_WAITING, is_this_try)
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
        payloads = {(row.event_key, row.target): row.payload for row in rows}
        is_long_ago = or_(outbox.c.finished_at < before, outbox.c.finished_at > now + CLOCKS_DIFFER)
        found = list[tuple[int, str]]()
        with self._database.read("looking for who was given up") as connection:
            for keys in batches(sorted({key for key, _ in payloads}), STEP):
                given_up = select(outbox.c.id, outbox.c.event_key, outbox.c.target).where(
                    outbox.c.event_key.in_(keys), _IS_UNTOLD, is_long_ago
                )
                for id_, *place in connection.execute(given_up):
                    if (payload := payloads.get(tuple(place))) is not None:
                        found.append((id_, payload))
        if not found:  # most often
            return 0
        anew = update(outbox).values(
            state=OutboxState.WAITING.value,
            tries=0,
            occurred_at=now,
            next_try_at=now,
            finished_at=None,
            owner=None,
        )
        told = 0
        with self._database.write("telling anew who was given up") as connection:
            for id_, payload in sorted(found)[:STEP]:  # in one order, so that two do not deadlock
                this = anew.where(outbox.c.id == id_, _IS_UNTOLD)
                told += connection.execute(this.values(payload=payload)).rowcount
        return told

    @repeatable
    def expected(self, *, source: str, after: int, limit: int) -> Sequence[OutboxRow]:
        asked = (
            _READ.where(_IS_EXPECTED, outbox.c.source == source, outbox.c.id > after)
            .order_by(outbox.c.id)
            .limit(limit)
        )
        with self._database.read("looking for recoveries") as connection:
            return _read(connection.execute(asked))

    @repeatable
    def recover(self, expected: OutboxRow, event: Event, *, now: datetime) -> bool:
        this = outbox.c.id == expected.id
        # A bad end that was announced meanwhile is after the success that was found.
        is_same = outbox.c.occurred_at == expected.occurred_at
        still = (
            select(outbox.c.id).where(this, _IS_EXPECTED, is_same).with_for_update(skip_locked=True)
        )
        told = select(outbox.c.id).where(
            outbox.c.event_key == event.id, outbox.c.target == expected.target
        )
        with self._database.write("telling of a recovery") as connection:
            if connection.scalar(still) is None:
                return False
            if connection.scalar(told) is not None:
                connection.execute(delete(outbox).where(this))
                return False
            connection.execute(
                update(outbox)
                .where(this)
                .values(
                    event_key=event.id,
                    occurred_at=event.at,
                    execution_id=event.execution_id,
                    payload=event.document,
                    state=OutboxState.WAITING.value,
                    next_try_at=now,
                )
            )
            return True

    @repeatable
    def regain(self, *, farthest: datetime, now: datetime) -> int:
        kinds = (
            (outbox.c.next_try_at, and_(_IS_WAITING, outbox.c.next_try_at > farthest)),
            (outbox.c.occurred_at, and_(_IS_EXPECTED, outbox.c.occurred_at > now)),
            (failed_tasks.c.event_at, failed_tasks.c.event_at > farthest),
        )
        with self._database.write("regaining events") as connection:
            return sum(
                change_some(connection, moment.table, is_too_far, {moment.name: now})
                for moment, is_too_far in kinds
            )

    @repeatable
    def expire(
        self, *, before: datetime, kept_since: datetime, expected_since: datetime, now: datetime
    ) -> Expired:
        is_untaken = and_(failed_tasks.c.event_at.is_not(None), failed_tasks.c.failed_at < before)
        # A try that is under way, or is to come, is noted by whoever makes it.
        is_nobodys = or_(
            outbox.c.owner.is_(None), outbox.c.next_try_at.is_(None), outbox.c.next_try_at <= now
        )
        is_old = and_(_IS_WAITING, outbox.c.occurred_at < before, is_nobodys)
        ended_at = func.coalesce(outbox.c.finished_at, outbox.c.occurred_at)
        is_forgotten = or_(
            and_(_IS_EXPECTED, ended_at < expected_since),
            and_(outbox.c.state.not_in(_OPEN), ended_at < kept_since),
        )
        expired = {"state": OutboxState.EXPIRED.value, "finished_at": now, "next_try_at": None}
        with self._database.write("giving up old events") as connection:
            failures = change_some(connection, failed_tasks, is_untaken, {"event_at": None})
            rows = change_some(connection, outbox, is_old, expired)
            deleted = change_some(connection, outbox, is_forgotten, None)
        more = max(failures, rows, deleted) == STEP
        return Expired(failures=failures, rows=rows, more=more)

    @repeatable
    def told(self, event_keys: Collection[str]) -> Mapping[str, Collection[str]]:
        asked = select(outbox.c.event_key, outbox.c.target).where(
            outbox.c.event_key.in_(sorted(event_keys)),
            outbox.c.state == OutboxState.DELIVERED.value,
        )
        found = dict[str, list[str]]()
        with self._database.read("looking for who was told") as connection:
            for row in connection.execute(asked):
                found.setdefault(row.event_key, []).append(row.target)
        return found

    @repeatable
    def deliveries(self, beginnings: Collection[str]) -> Sequence[OutboxRow]:
        found = list[OutboxRow]()
        with self._database.read("looking for who was told") as connection:
            for part in batches(sorted(beginnings), _ASKED_AT_ONCE):
                ranges = (outbox.c.event_key.between(begins, f"{begins}g") for begins in part)
                found += _read(connection.execute(_READ.where(or_(*ranges))))
        # In a statement that orders them SQLite walks all rows by their ids.
        return sorted(found, key=attrgetter("id"))

    @repeatable
    def failing(self, target: str, *, source: str) -> OutboxRow | None:
        is_its = and_(outbox.c.target == target, outbox.c.source == source)
        has_failed = and_(outbox.c.tries > 0, outbox.c.last_error.is_not(None))
        asked = _READ.where(_IS_WAITING, is_its, has_failed)
        asked = asked.order_by(outbox.c.next_try_at.desc()).limit(1)
        with self._database.read("looking for why a target is not told") as connection:
            return next(iter(_read(connection.execute(asked))), None)

    @repeatable
    def rows(
        self, *, states: Collection[OutboxState] = (), schedule: str | None = None, limit: int
    ) -> Sequence[OutboxRow]:
        asked = _READ.order_by(outbox.c.id.desc()).limit(limit)
        if states:
            asked = asked.where(outbox.c.state.in_([each.value for each in states]))
        if schedule is not None:
            asked = asked.where(outbox.c.schedule_name == schedule)
        with self._database.read("listing events") as connection:
            return _read(connection.execute(asked))


def _due_for(target: str, source: str, due_by: datetime) -> Select[Any]:
    """Select what is due for a target, the earliest first."""
    return (
        select(outbox.c.id)
        .where(
            _IS_WAITING,
            outbox.c.target == target,
            outbox.c.next_try_at <= due_by,
            outbox.c.occurred_at >= due_by - EXPIRES_AFTER,
            outbox.c.source == source,
        )
        .order_by(outbox.c.next_try_at, outbox.c.id)
    )


def _read(rows: Iterable[Row[Any]]) -> list[OutboxRow]:
    """Read the rows that fit; they have all columns."""
    return [OutboxRow(**msgspec.structs.asdict(each)) for each in DELIVERY.readable(rows)]


def _insert_new(connection: Connection, wanted: Sequence[OutboxRow]) -> int:
    """Insert what is not there; what another has just added raises, to be repeated."""
    added = 0
    for part in batches(wanted, _INSERTED_AT_ONCE):
        new = {(one.event_key, one.target): one for one in part}
        keys = sorted({key for key, _ in new})
        asked = select(outbox.c.event_key, outbox.c.target).where(outbox.c.event_key.in_(keys))
        for row in connection.execute(asked):
            new.pop((row.event_key, row.target), None)
        if new:
            rows = [{name: getattr(one, name) for name in _WRITTEN} for one in new.values()]
            connection.execute(insert(outbox), rows)
        added += len(new)
    return added


def _without_known(
    connection: Connection, wanted: Sequence[OutboxRow], once: Collection[str]
) -> Sequence[OutboxRow]:
    """Leave out what targets told *once* know, and recoveries that are expected already.

    These are expected after the later bad end from now on.
    """
    hoped = {one.scheduler_id for one in wanted if one.state == OutboxState.EXPECTED}
    if not hoped:
        return wanted
    expected = (
        select(outbox.c.id, outbox.c.event_key, outbox.c.scheduler_id, outbox.c.target)
        .where(_IS_EXPECTED, outbox.c.scheduler_id.in_(sorted(hoped)))
        .with_for_update()
    )
    there, after = dict[Place, int](), dict[Place, str]()
    for row in connection.execute(expected):
        there[row.scheduler_id, row.target] = row.id
        if row.target in once:
            after[row.scheduler_id, row.target] = expected_after(row.event_key)
    told = set[tuple[str, str]]()
    if after:
        of_keys = outbox.c.event_key.in_(sorted({*after.values()}))
        is_told = outbox.c.state.not_in(sorted(UNTOLD))
        asked = select(outbox.c.event_key, outbox.c.target).where(of_keys, is_told)
        told.update((row.event_key, row.target) for row in connection.execute(asked))
    known = {place: key for place, key in after.items() if (key, place[1]) in told}
    wanted = without_repeats(wanted, once=once, known=known)
    latest = {one.place: one for one in wanted if one.state == OutboxState.EXPECTED}
    for place, id_ in there.items():
        if (one := latest.pop(place, None)) is not None:
            # One that was left to wait is announced after those that came later.
            is_earlier = outbox.c.occurred_at <= one.occurred_at
            connection.execute(
                update(outbox)
                .where(outbox.c.id == id_, is_earlier)
                .values(
                    event_key=one.event_key,
                    occurred_at=one.occurred_at,
                    execution_id=one.execution_id,
                )
            )
    return [*(one for one in wanted if one.state != OutboxState.EXPECTED), *latest.values()]
