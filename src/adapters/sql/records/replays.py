"""Replays of many failures: asked for once, then taken on by one scheduler at a time."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import attrs
from sqlalchemy import Connection, Engine, bindparam, func, insert, select, update

from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import (
    Replay,
    ReplayState,
    halted,
    resumed,
)
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.replays import Advance

from ..mapping.replay_rows import progress_values, read_replay, write_order
from ..schema.tables import failed_tasks, replays
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from .archive import known_id
from .replay_step import ReplayStep

_NEWEST: Final = select(replays).order_by(replays.c.id.desc())
_THIS: Final = replays.c.id == bindparam("replay_id")
_NEXT: Final = (
    select(replays)
    .where(
        replays.c.state == ReplayState.ACTIVE.value,
        replays.c.next_at <= bindparam("now", type_=UtcDateTime),
    )
    .order_by(replays.c.next_at, replays.c.id)
    .limit(1)
)


class SqlReplayStore:
    """Satisfies `ReplayStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        """See `Database`."""
        self._database = Database(engine, clock)

    def order(self, order: ReplayOrder, *, now: datetime) -> Replay:
        """See `ReplayStorePort.order`."""
        with self._database.write("ordering a replay") as connection:
            up_to = connection.scalar(select(func.max(failed_tasks.c.id))) or 0
            replay = Replay(id=0, order=order, created_at=now, up_to=up_to, next_at=now)
            values = {
                "asked": write_order(order),
                "created_at": now,
                "state": replay.state.value,
                "up_to": up_to,
                "next_at": now,
            }
            [id_] = connection.execute(insert(replays), values).inserted_primary_key or [0]
            return attrs.evolve(replay, id=id_)

    @repeatable
    def replays(self, *, limit: int) -> Sequence[Replay]:
        """See `ReplayStorePort.replays`."""
        with self._database.read("listing replays") as connection:
            return list(map(read_replay, connection.execute(_NEWEST.limit(limit))))

    @repeatable
    def replay(self, replay_id: int) -> Replay | None:
        """See `ReplayStorePort.replay`."""
        with self._database.read(f"reading replay {replay_id}") as connection:
            return _find(connection, replay_id)

    @repeatable
    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        """See `ReplayStorePort.halt`."""
        with self._database.write(f"stopping replay {replay_id}") as connection:
            found = _find(connection, replay_id, locking=True)
            return found and _write(connection, halted(found, reason, now=now))

    @repeatable
    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        """See `ReplayStorePort.resume`."""
        with self._database.write(f"resuming replay {replay_id}") as connection:
            found = _find(connection, replay_id, locking=True)
            return found and _write(connection, resumed(found, now=now))

    def advance(
        self, *, now: datetime, policy: RetryPolicy, random_fraction: Callable[[], float]
    ) -> Advance | None:
        """See `ReplayStorePort.advance`. Most looks find nothing, and take no lock."""

        def step(connection: Connection, order: ReplayOrder, **limits: Any) -> ReplayStep:  # noqa: ANN401
            return ReplayStep(
                connection=connection,
                dialect=self._database.dialect,
                order=order,
                now=now,
                policy=policy,
                random_fraction=random_fraction,
                **limits,
            )

        try:
            return self._advance(now, step)
        except LedgerRefused:  # of one of those that were to begin: now each is alone
            try:
                return self._advance(now, partial(step, most=1))
            except LedgerRefused as refusal:
                return self._advance(now, partial(step, most=1, refused=str(refusal)))

    @repeatable
    def _advance(self, now: datetime, step: Callable[..., ReplayStep]) -> Advance | None:
        with self._database.read("looking for replays") as connection:
            if connection.execute(_NEXT, {"now": now}).first() is None:
                return None
        with self._database.write("going on with a replay") as connection:
            row = connection.execute(_NEXT.with_for_update(skip_locked=True), {"now": now}).first()
            if row is None:
                return None
            found = read_replay(row)
            if found.order is None:
                return Advance(replay=_write(connection, attrs.evolve(found, ended_at=now)))
            advance = step(connection, found.order).take(found)
            _write(connection, advance.replay)
            return advance


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
