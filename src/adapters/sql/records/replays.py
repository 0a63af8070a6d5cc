"""Replays of many and backfills: asked for once, then taken on by one scheduler at a time."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
from sqlalchemy import Connection, Engine, bindparam, func, insert, or_, select, update

from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay import Allowance
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import (
    FARTHEST,
    Replay,
    ReplayState,
    halted,
    is_due,
    resumed,
)
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.replays import Advance

from ..cooldown import Cooldown, excluding
from ..dialect import Locked
from ..mapping.replay_rows import progress_values, read_replay, write_order
from ..schema.tables import failed_tasks, replays
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .archive import known_id
from .archived_failures import ArchivedFailures
from .past_instants import PastInstants, have_run
from .replay_step import RefusedItem, ReplayStep, Tried, WorkList

_NEWEST: Final = select(replays).order_by(replays.c.id.desc())
_ASKED_BY: Final = select(replays).where(replays.c.request == bindparam("request"))
_THIS: Final = replays.c.id == bindparam("replay_id")
_MAY_BE_DUE: Final = (
    replays.c.state == ReplayState.ACTIVE.value,
    or_(
        replays.c.next_at <= bindparam("now", type_=UtcDateTime),
        replays.c.next_at > bindparam("farthest", type_=UtcDateTime),
    ),
)
#: So many that may be due are looked at. Those before a slow pace are not hidden by it.
_LOOKED_AT: Final = 100
_NEXT: Final = (
    select(replays).where(*_MAY_BE_DUE).order_by(replays.c.next_at, replays.c.id).limit(_LOOKED_AT)
)
_TAKEN: Final = select(replays).where(_THIS, *_MAY_BE_DUE).with_for_update(skip_locked=True)


class SqlReplayStore:
    """Satisfies `ReplayStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)
        self._passed_over = Cooldown()

    def order(
        self, order: ReplayOrder | BackfillOrder, *, now: datetime, request: UUID | None = None
    ) -> Replay:
        if request is None:
            return self._order(order, now, None)
        return self._order_once(order, now, str(request))

    @repeatable
    def _order_once(
        self, order: ReplayOrder | BackfillOrder, now: datetime, request: str
    ) -> Replay:
        try:
            return self._asked_by(request) or self._order(order, now, request)
        except LedgerRefused:
            # By the index: another caller was first.
            if (begun := self._asked_by(request)) is None:
                raise
            return begun

    def _asked_by(self, request: str) -> Replay | None:
        with self._database.read("looking for a replay that was asked for") as connection:
            row = connection.execute(_ASKED_BY, {"request": request}).first()
        return None if row is None else read_replay(row)

    def _order(
        self, order: ReplayOrder | BackfillOrder, now: datetime, request: str | None
    ) -> Replay:
        with self._database.write("ordering a replay") as connection:
            if isinstance(order, BackfillOrder):
                first, up_to = order.span
                looked_to = first - 1
            else:
                looked_to, up_to = 0, connection.scalar(select(func.max(failed_tasks.c.id))) or 0
            replay = Replay(
                id=0,
                order=order,
                created_at=now,
                up_to=up_to,
                collected_to=looked_to,
                next_at=now,
            )
            values = {
                "asked": write_order(order),
                "created_at": now,
                "state": replay.state.value,
                "up_to": up_to,
                "collected_to": looked_to,
                "next_at": now,
                "request": request,
            }
            [id_] = connection.execute(insert(replays), values).inserted_primary_key or [0]
            return attrs.evolve(replay, id=id_)

    @repeatable
    def asked_by(self, request: UUID) -> Replay | None:
        return self._asked_by(str(request))

    @repeatable
    def replays(self, *, limit: int, before: int | None = None) -> Sequence[Replay]:
        statement = _NEWEST if before is None else _NEWEST.where(replays.c.id < before)
        with self._database.read("listing replays") as connection:
            return list(map(read_replay, connection.execute(statement.limit(limit))))

    @repeatable
    def replay(self, replay_id: int) -> Replay | None:
        with self._database.read(f"reading replay {replay_id}") as connection:
            return _find(connection, replay_id)

    @repeatable
    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        with self._database.write(f"stopping replay {replay_id}") as connection:
            found = _find(connection, replay_id, locking=True)
            return found and _write(connection, halted(found, reason, now=now))

    @repeatable
    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        with self._database.write(f"resuming replay {replay_id}") as connection:
            found = _find(connection, replay_id, locking=True)
            return found and _write(connection, resumed(found, now=now))

    @repeatable
    def have_run(self, scheduler_id: int, due: Sequence[datetime]) -> Collection[datetime]:
        with self._database.read("looking for runs of past instants") as connection:
            return have_run(connection, known_id(scheduler_id), due)

    def advance(
        self,
        *,
        now: datetime,
        node: str,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
    ) -> Advance | None:
        """See `ReplayStorePort.advance`. Most looks find nothing, and take no lock.

        A replay that cannot be taken on is passed over for a minute: it must not keep all others.
        """
        tried = Tried()

        def step(
            connection: Connection,
            order: ReplayOrder | BackfillOrder,
            **limits: Any,  # noqa: ANN401
        ) -> ReplayStep:
            allowance = Allowance(attempts=order.attempts, policy=policy)
            at = (connection, self._database.dialect, now, allowance)
            work: WorkList
            if isinstance(order, BackfillOrder):
                work = PastInstants(*at, order=order, node=node)
            else:
                work = ArchivedFailures(*at, order=order)
            return ReplayStep(
                connection=connection,
                order=order,
                work=work,
                now=now,
                random_fraction=random_fraction,
                tried=tried,
                **limits,
            )

        try:
            return self._advance_alone_if_refused(now, step, tried)
        except (LedgerRefused, Locked) as error:
            if tried.replay_id is not None:
                self._passed_over.note(tried.replay_id, now, str(error))
            raise

    def _advance_alone_if_refused(
        self, now: datetime, step: Callable[..., ReplayStep], tried: Tried
    ) -> Advance | None:
        try:
            return self._advance(now, step, tried)
        except LedgerRefused:  # of one of those that were to begin: now each is alone
            try:
                return self._advance(now, partial(step, most=1), tried)
            except LedgerRefused as refusal:
                if tried.item is None:  # none was to begin yet: what is refused is no item
                    raise
                # Another replica, or a person, may have gone on with it meanwhile.
                refused = RefusedItem(tried.item, str(refusal))
                left_out = partial(step, most=1, refused=refused)
                return self._advance(now, left_out, tried, only=tried.replay_id)

    @repeatable
    def _advance(
        self,
        now: datetime,
        step: Callable[..., ReplayStep],
        tried: Tried,
        *,
        only: int | None = None,
    ) -> Advance | None:
        """Take the first step that can be taken, or that of one replay *only*."""
        tried.replay_id = tried.item = None
        moments = {"now": now, "farthest": now + FARTHEST}
        statement = excluding(_NEXT, replays.c.id, self._passed_over.at(now))
        with self._database.read("looking for replays") as connection:
            seen = map(read_replay, connection.execute(statement, moments).all())
            due = [one.id for one in seen if only in {None, one.id} and is_due(one, now)]
        if not due:
            return None
        with self._database.write("going on with a replay") as connection:
            for id_ in due:  # one that somebody else takes on is locked
                row = connection.execute(_TAKEN, {**moments, "replay_id": id_}).first()
                if row is None or not is_due(found := read_replay(row), now):
                    continue
                tried.replay_id = id_
                if found.order is None:
                    return Advance(replay=_write(connection, attrs.evolve(found, ended_at=now)))
                advance = step(connection, found.order).take(found)
                _write(connection, advance.replay)
                return advance
        return None


def _find(connection: Connection, replay_id: int, *, locking: bool = False) -> Replay | None:
    statement = select(replays).where(_THIS)
    if locking:
        statement = statement.with_for_update()
    row = connection.execute(statement, {"replay_id": known_id(replay_id)}).first()
    return None if row is None else read_replay(row)


def _write(connection: Connection, replay: Replay) -> Replay:
    values = {
        "state": replay.state.value,
        "reason": replay.reason,
        "collected_to": replay.collected_to,
        "next_at": replay.next_at,
        "ended_at": replay.ended_at,
        **progress_values(replay.progress),
    }
    if replay.order is not None:
        values["asked"] = write_order(replay.order)
    connection.execute(update(replays).where(_THIS).values(values), {"replay_id": replay.id})
    return replay
