"""The outbox: what is to be told, and what came of telling it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, Final

from sqlalchemy import Engine, bindparam, case, delete, func, or_, select, update

from cronhare.domain.lifecycle.events import EXPIRES_AFTER, UNTOLD, OutboxRow, OutboxState
from cronhare.domain.messages.nack_count import MOST
from cronhare.domain.retries.leaps import CLOCKS_DIFFER
from cronhare.ports.clock import ClockPort
from cronhare.ports.events import Expired

from ..schema.tables import failed_tasks, outbox
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .bad_ends import BadEnds
from .pings import Pings
from .recoveries import Recoveries
from .rows import insert_new, read_outbox_rows
from .too_far import TooFar

#: Rows that one transaction gives up, or deletes; and targets that one statement asks for.
STEP: Final = 1_000
_ASKED_AT_ONCE: Final = 32

_WAITING: Final = OutboxState.WAITING.value
_IDS: Final[Any] = bindparam("ids", expanding=True)
_NOW: Final = bindparam("now", type_=UtcDateTime)
_THESE: Final = outbox.c.id.in_(_IDS)
_TAKEABLE: Final = (
    select(outbox.c.id)
    .where(
        outbox.c.state == _WAITING,
        outbox.c.target == bindparam("target"),
        outbox.c.next_try_at <= bindparam("due_by", type_=UtcDateTime),
        outbox.c.occurred_at >= bindparam("since", type_=UtcDateTime),
        outbox.c.source == bindparam("source"),
    )
    .order_by(outbox.c.next_try_at, outbox.c.id)
    .limit(bindparam("limit"))
)
_DUE: Final = _TAKEABLE.add_columns(outbox.c.event).subquery()
_PENDING: Final = select(_DUE.c.event, func.count().label("rows")).group_by(_DUE.c.event)
_TAKE: Final = (
    update(outbox)
    .where(_THESE)
    .values(
        owner=bindparam("node"),
        # A number that somebody wrote may be the largest there is.
        tries=case((outbox.c.tries.between(0, MOST - 1), outbox.c.tries + 1), else_=MOST),
        next_try_at=bindparam("until", type_=UtcDateTime),
    )
)
_READ: Final = select(outbox)
_SETTLE: Final = (
    update(outbox)
    .where(
        outbox.c.id == bindparam("this"),
        outbox.c.state == _WAITING,
        outbox.c.owner == bindparam("by"),
        outbox.c.tries == bindparam("tried"),
    )
    .values(
        state=bindparam("came"),
        next_try_at=bindparam("next", type_=UtcDateTime),
        finished_at=bindparam("over", type_=UtcDateTime),
        last_error=bindparam("error"),
    )
)
_COUNTS: Final = (
    select(outbox.c.target, func.count().label("rows"))
    .where(
        outbox.c.state == _WAITING,
        outbox.c.target.in_(bindparam("targets", expanding=True)),
        outbox.c.source == bindparam("source"),
    )
    .group_by(outbox.c.target)
)
_TOO_OLD: Final = (
    select(outbox.c.id)
    .where(
        outbox.c.state == _WAITING,
        outbox.c.occurred_at < bindparam("before", type_=UtcDateTime),
        # What somebody is about to note is noted by them: a try is under way, or to come.
        or_(outbox.c.owner.is_(None), outbox.c.next_try_at.is_(None), outbox.c.next_try_at <= _NOW),
    )
    .limit(STEP)
    .with_for_update(skip_locked=True)
)
_EXPIRE: Final = (
    update(outbox)
    .where(_THESE)
    .values(state=OutboxState.EXPIRED.value, finished_at=_NOW, next_try_at=None)
)
_IS_UNTOLD: Final = outbox.c.state.in_([each.value for each in UNTOLD])
_GIVEN_UP: Final = select(outbox.c.id, outbox.c.event_key, outbox.c.target).where(
    outbox.c.event_key.in_(bindparam("keys", expanding=True)),
    _IS_UNTOLD,
    or_(
        outbox.c.finished_at < bindparam("before", type_=UtcDateTime),
        outbox.c.finished_at > bindparam("ahead", type_=UtcDateTime),
    ),
)
_TELL_ANEW: Final = (
    update(outbox)
    .where(outbox.c.id == bindparam("this"), _IS_UNTOLD)
    .values(
        payload=bindparam("says"),
        state=_WAITING,
        tries=0,
        occurred_at=_NOW,
        next_try_at=_NOW,
        finished_at=None,
        owner=None,
    )
)
_UNTAKEN: Final = (
    select(failed_tasks.c.id)
    .where(
        failed_tasks.c.event_at.is_not(None),
        failed_tasks.c.failed_at < bindparam("before", type_=UtcDateTime),
    )
    .limit(STEP)
    .with_for_update(skip_locked=True)
)
_LET_GO: Final = update(failed_tasks).where(failed_tasks.c.id.in_(_IDS)).values(event_at=None)
_OVER: Final = (
    select(outbox.c.id)
    .where(
        outbox.c.state != _WAITING,
        func.coalesce(outbox.c.finished_at, outbox.c.occurred_at)
        < case(
            (
                outbox.c.state == OutboxState.EXPECTED.value,
                bindparam("expected", type_=UtcDateTime),
            ),
            else_=bindparam("kept", type_=UtcDateTime),
        ),
    )
    .limit(STEP)
    .with_for_update(skip_locked=True)
)
_DELETE: Final = delete(outbox).where(_THESE)


class SqlEventStore(BadEnds, Recoveries, Pings, TooFar):
    """Satisfies `EventStorePort`; what is found in other tables is inherited."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(Database(engine, clock))

    @repeatable
    def add(self, rows: Sequence[OutboxRow]) -> int:
        with self._database.write("adding events") as connection:
            return insert_new(connection, rows)

    @repeatable
    def waiting(self, targets: Collection[str], *, source: str) -> Mapping[str, int]:
        asked = {"targets": sorted(targets), "source": source}
        with self._database.read("counting events") as connection:
            return {row.target: row.rows for row in connection.execute(_COUNTS, asked)}

    @repeatable
    def due(self, targets: Collection[str], *, source: str, due_by: datetime) -> Collection[str]:
        """See `EventStorePort.due`: a look at the index for each of them, in one statement."""
        asked, found = sorted(targets), list[str]()
        with self._database.read("looking for events") as connection:
            for at in range(0, len(asked), _ASKED_AT_ONCE):
                part = asked[at : at + _ASKED_AT_ONCE]
                looks = [
                    select(outbox.c.id)
                    .where(
                        outbox.c.state == _WAITING,
                        outbox.c.target == target,
                        outbox.c.next_try_at <= due_by,
                        outbox.c.occurred_at >= due_by - EXPIRES_AFTER,
                        outbox.c.source == source,
                    )
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
        asked = _due_for(target, source, due_by) | {"limit": most}
        with self._database.read("counting events that are due") as connection:
            return {row.event: row.rows for row in connection.execute(_PENDING, asked)}

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
        asked = _due_for(target, source, due_by or now) | {"limit": limit}
        with self._database.write("taking events") as connection:
            unlocked = _TAKEABLE.with_for_update(skip_locked=True)
            if kind is not None:
                unlocked = unlocked.where(outbox.c.event == kind)
            ids = list(connection.scalars(unlocked, asked))
            if not ids:
                return ()
            connection.execute(_TAKE, {"ids": ids, "node": node, "until": now + lease})
            rows = connection.execute(_READ.where(_THESE), {"ids": ids})
            return sorted(read_outbox_rows(rows), key=lambda one: ids.index(one.id))

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
        with self._database.write("noting what came of an event") as connection:
            asked = {
                "this": row.id,
                "by": row.owner,
                "tried": row.tries,
                "came": state.value,
                "next": None if is_over else next_try_at,
                "over": now if is_over else None,
                "error": error,
            }
            return connection.execute(_SETTLE, asked).rowcount == 1

    @repeatable
    def tell_anew(self, rows: Collection[OutboxRow], *, before: datetime, now: datetime) -> int:
        """See `EventStorePort.tell_anew`. Looked for first: most often there is nothing to do."""
        payloads = {(row.event_key, row.target): row.payload for row in rows}
        keys = sorted({key for key, _ in payloads})
        times = {"before": before, "ahead": now + CLOCKS_DIFFER}
        with self._database.read("looking for who was given up") as connection:
            found = [
                {"this": row.id, "says": payloads[row.event_key, row.target], "now": now}
                for at in range(0, len(keys), STEP)
                for row in connection.execute(_GIVEN_UP, {"keys": keys[at : at + STEP], **times})
                if (row.event_key, row.target) in payloads
            ]
        if not found:
            return 0
        found = sorted(found, key=itemgetter("this"))[:STEP]  # of two that do so none is in the way
        with self._database.write("telling anew who was given up") as connection:
            return sum(connection.execute(_TELL_ANEW, each).rowcount for each in found)

    @repeatable
    def expire(
        self, *, before: datetime, kept_since: datetime, expected_since: datetime, now: datetime
    ) -> Expired:
        with self._database.write("giving up old events") as connection:
            untaken = list(connection.scalars(_UNTAKEN, {"before": before}))
            if untaken:
                connection.execute(_LET_GO, {"ids": untaken})
            old = list(connection.scalars(_TOO_OLD, {"before": before, "now": now}))
            if old:
                connection.execute(_EXPIRE, {"ids": old, "now": now})
            asked = {"kept": kept_since, "expected": expected_since}
            over = list(connection.scalars(_OVER, asked))
            if over:
                connection.execute(_DELETE, {"ids": over})
        more = max(len(untaken), len(old), len(over)) == STEP
        return Expired(failures=len(untaken), rows=len(old), more=more)

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
        """See `EventStorePort.deliveries`: each beginning is a range of the unique key."""
        asked, found = sorted(beginnings), list[OutboxRow]()
        with self._database.read("looking for who was told") as connection:
            for at in range(0, len(asked), _ASKED_AT_ONCE):
                ranges = (
                    outbox.c.event_key.between(begins, f"{begins}g")
                    for begins in asked[at : at + _ASKED_AT_ONCE]
                )
                found += read_outbox_rows(connection.execute(_READ.where(or_(*ranges))))
        # In a statement that orders them SQLite walks all rows by their ids.
        return sorted(found, key=attrgetter("id"))

    @repeatable
    def failing(self, target: str, *, source: str) -> OutboxRow | None:
        """See `EventStorePort.failing`: by the index of what is due."""
        asked = (
            _READ.where(
                outbox.c.state == OutboxState.WAITING.value,
                outbox.c.target == target,
                outbox.c.source == source,
                outbox.c.tries > 0,
                outbox.c.last_error.is_not(None),
            )
            .order_by(outbox.c.next_try_at.desc())
            .limit(1)
        )
        with self._database.read("looking for why a target is not told") as connection:
            return next(iter(read_outbox_rows(connection.execute(asked))), None)

    @repeatable
    def rows(
        self, *, states: Collection[OutboxState] = (), schedule: str | None = None, limit: int
    ) -> Sequence[OutboxRow]:
        statement = _READ.order_by(outbox.c.id.desc()).limit(limit)
        if states:
            statement = statement.where(outbox.c.state.in_([each.value for each in states]))
        if schedule is not None:
            statement = statement.where(outbox.c.schedule_name == schedule)
        with self._database.read("listing events") as connection:
            return read_outbox_rows(connection.execute(statement))


def _due_for(target: str, source: str, due_by: datetime) -> dict[str, object]:
    since = due_by - EXPIRES_AFTER
    return {"target": target, "source": source, "due_by": due_by, "since": since}
