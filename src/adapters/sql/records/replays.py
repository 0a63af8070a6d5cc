"""Replays of many failures, and backfills: ordered once, then taken on by one scheduler at a time.

A step is one transaction that locks the row of the order. It counts what has ended, collects more
items as rows of `ReplayItem`, and lets some begin.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import attrs
import msgspec
from sqlalchemy import Connection, Engine, Row, Select, bindparam, func, insert, or_, select, update

from cronhare.domain.execution import UNFINISHED, Execution
from cronhare.domain.lifecycle.claims import Allowance
from cronhare.domain.lifecycle.orders import (
    WENT_WELL,
    BackfillOrder,
    Halt,
    ItemState,
    Order,
    Release,
    Replay,
    ReplayOrder,
    ReplayProgress,
    ReplayState,
    halted,
    next_step,
    resumed,
)
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.ports import LedgerRefused
from cronhare.ports.claims import Advance
from cronhare.ports.system import ClockPort

from ..database import Store, repeatable
from ..dialect import Cooldown, Locked, StatementFailed, excluding
from ..tables.executions import in_states, known_id
from ..tables.tables import IDS, executions, failed_tasks, replay_items, replays
from ..tables.types import BrokenRow, OwnTable, moment_of
from .items import Collected, Failures, PastInstants, have_run

#: A step counts at most so many executions that have ended.
SETTLED_AT_ONCE: Final = 10_000

#: A locked item rests for so long: we ourselves lock a failure for a moment, as it is published.
LOCKED_FOR: Final = timedelta(seconds=10)

#: So many due replays are read: each may be another scheduler's by the time that it is taken.
_LOOKED_AT: Final = 100

REPLAY: Final = OwnTable(replays, state=ReplayState)

_NEWEST: Final = select(replays).order_by(replays.c.id.desc())
_ASKED_BY: Final = select(replays).where(replays.c.request == bindparam("request"))
_THIS: Final = replays.c.id == bindparam("this")
_ONE: Final = select(replays).where(_THIS)
_DUE: Final = (
    replays.c.state == ReplayState.ACTIVE.value,
    replays.c.next_at <= moment_of("now"),
)
_NEXT: Final = (
    select(replays.c.id).where(*_DUE).order_by(replays.c.next_at, replays.c.id).limit(_LOOKED_AT)
)
_TAKEN: Final = select(replays).where(_THIS, *_DUE).with_for_update(skip_locked=True)

_ITEM: Final = replay_items.c
_OF_THIS: Final = _ITEM.replay_id == bindparam("of_replay")
_ADD: Final = insert(replay_items)
_MOVE: Final = (
    update(replay_items)
    .where(_OF_THIS, _ITEM.archived_id.in_(IDS))
    .values(state=bindparam("becomes"))
)
_RELEASED: Final = (_OF_THIS, _ITEM.state == ItemState.RELEASED.value)
_UNENDED: Final = in_states(UNFINISHED)
#: Without those that have not ended: many that hang would hide what ends behind them.
_ENDED: Final = (
    select(_ITEM.archived_id, executions.c.state)
    .select_from(replay_items.outerjoin(executions, executions.c.id == _ITEM.execution_id))
    .where(*_RELEASED, or_(executions.c.id.is_(None), ~_UNENDED))
    .order_by(_ITEM.archived_id)
    .limit(SETTLED_AT_ONCE)
)
_FAILING: Final = (
    select(func.count())
    .select_from(replay_items.join(executions, executions.c.id == _ITEM.execution_id))
    .where(*_RELEASED, _UNENDED, executions.c.deaths > 0)
)
_WAITING: Final = (
    select(_ITEM.archived_id, _ITEM.execution_id)
    .where(_OF_THIS, _ITEM.state == ItemState.WAITING.value)
    .order_by(_ITEM.archived_id)
    .limit(bindparam("most"))
)
_PLACED: Final = select(
    _ITEM.archived_id,
    _ITEM.execution_id,
    _ITEM.item_key,
    func.row_number().over(partition_by=_ITEM.item_key, order_by=_ITEM.archived_id).label("place"),
).where(_OF_THIS, _ITEM.state == ItemState.WAITING.value)
_UNDER_WAY: Final = (
    select(_ITEM.item_key, func.count().label("number"))
    .where(*_RELEASED)
    .group_by(_ITEM.item_key)
    .subquery("under_way")
)

_COUNTED: Final = ("waiting", "released", "failing", "succeeded", "failed", "refused", "left_out")
_PLAIN: Final = [name for name in attrs.fields_dict(Replay) if name not in {"order", "progress"}]
#: Stands in the JSON of a backfill alone: texts have their quotes escaped.
_IS_BACKFILL: Final = '"kind":"backfill"'


class SqlReplayStore(Store):
    """Satisfies `ReplayStorePort`."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(engine, clock)
        self._passed_over = Cooldown()
        self._locked = Cooldown(LOCKED_FOR)

    def order(self, order: Order, *, now: datetime, request: UUID | None = None) -> Replay:
        # Without a request a repetition could begin a second one.
        put = self._order if request is None else repeatable(self._order)
        return put(order, now, request)

    def _order(self, order: Order, now: datetime, request: UUID | None) -> Replay:
        with self._database.write("ordering a replay") as connection:
            if request is not None and (begun := _find_request(connection, request)) is not None:
                return begun
            if isinstance(order, BackfillOrder):
                first, up_to = order.span
                looked_to = first - 1
            else:
                looked_to, up_to = 0, connection.scalar(select(func.max(failed_tasks.c.id))) or 0
            replay = Replay(
                id=0, order=order, created_at=now, up_to=up_to, collected_to=looked_to, next_at=now
            )
            asked = None if request is None else str(request)
            values = {"created_at": now, "up_to": up_to, "request": asked, **_changing(replay)}
            [id_] = connection.execute(insert(replays), values).inserted_primary_key or [0]
            return attrs.evolve(replay, id=id_)

    @repeatable
    def asked_by(self, request: UUID) -> Replay | None:
        with self._database.read("looking for a replay that was asked for") as connection:
            return _find_request(connection, request)

    @repeatable
    def replays(self, *, limit: int, before: int | None = None) -> Sequence[Replay]:
        statement = _NEWEST if before is None else _NEWEST.where(replays.c.id < before)
        with self._database.read("listing replays") as connection:
            return list(_read(connection.execute(statement.limit(limit))))

    @repeatable
    def replay(self, replay_id: int) -> Replay | None:
        with self._database.read(f"reading replay {replay_id}") as connection:
            return _find(connection, _ONE, this=known_id(replay_id))

    @repeatable
    def halt(self, replay_id: int, *, reason: str, now: datetime) -> Replay | None:
        with self._database.write(f"stopping replay {replay_id}") as connection:
            found = _find(connection, _ONE.with_for_update(), this=known_id(replay_id))
            return found and _write(connection, halted(found, reason, now=now))

    @repeatable
    def resume(self, replay_id: int, *, now: datetime) -> Replay | None:
        with self._database.write(f"resuming replay {replay_id}") as connection:
            found = _find(connection, _ONE.with_for_update(), this=known_id(replay_id))
            return found and _write(connection, resumed(found, now=now))

    @repeatable
    def have_run(self, scheduler_id: int, due: Sequence[datetime]) -> Collection[datetime]:
        with self._database.read("looking for runs of past instants") as connection:
            return have_run(connection, known_id(scheduler_id), due)

    def advance(
        self, *, now: datetime, node: str, policy: RetryPolicy, random_fraction: Callable[[], float]
    ) -> Advance | None:
        for id_ in self._due(now):
            try:
                try:
                    advance = self._step(id_, now, node, policy, random_fraction)
                except LedgerRefused as refusal:
                    stopped = self.halt(id_, reason=str(refusal), now=now)
                    advance = None if stopped is None else Advance(replay=stopped)
            except (LedgerRefused, Locked, StatementFailed):
                self._passed_over.note(id_, now)
                raise
            if advance is not None:
                return advance
        return None

    @repeatable
    def _due(self, now: datetime) -> Sequence[int]:
        statement = excluding(_NEXT, replays.c.id, self._passed_over.at(now))
        with self._database.read("looking for replays") as connection:
            return connection.scalars(statement, {"now": now}).all()

    @repeatable
    def _step(
        self,
        id_: int,
        now: datetime,
        node: str,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
    ) -> Advance | None:
        with self._database.write("going on with a replay") as connection:
            found = _find(connection, _TAKEN, this=id_, now=now)
            if found is None:
                return None
            order = found.order
            allowance = Allowance(attempts=order.attempts, policy=policy)
            work: PastInstants | Failures
            if isinstance(order, BackfillOrder):
                work = PastInstants(connection, order, allowance, now=now, node=node)
                if why := work.why_impossible():
                    return Advance(replay=_write(connection, halted(found, why, now=now)))
            else:
                work = Failures(connection, order, allowance, now)
            seen = _seen(connection, found, work)
            step = next_step(
                order, seen.progress, next_at=seen.next_at, now=now, random_fraction=random_fraction
            )
            if isinstance(step, Halt):
                ended = attrs.evolve(seen, state=step.state, reason=step.reason, ended_at=now)
                return Advance(replay=_write(connection, ended))
            return self._release(connection, seen, work, step, now)

    def _release(
        self,
        connection: Connection,
        seen: Replay,
        work: PastInstants | Failures,
        step: Release,
        now: datetime,
    ) -> Advance:
        begun: Mapping[int, Execution] = {}
        refused: Collection[int] = ()
        chosen = _choose(connection, seen, len(step.begins), without=self._locked.at(now))
        if chosen:
            begun, refused = work.begin(seen.id, chosen, step.begins)
        for id_ in chosen.keys() - begun.keys() - set(refused):
            self._locked.note(id_, now)
        _move(connection, seen.id, begun, ItemState.RELEASED)
        _move(connection, seen.id, refused, ItemState.REFUSED)
        before, moved = seen.progress, len(begun) + len(refused)
        after = attrs.evolve(
            before,
            waiting=before.waiting - moved,
            released=before.released + len(begun),
            refused=before.refused + len(refused),
        )
        next_at = step.looks_again_at(moved, now)
        replay = attrs.evolve(seen, next_at=next_at, reason=step.waits_for, progress=after)
        return Advance(replay=_write(connection, replay), executions=tuple(begun.values()))


# Rows


def _find_request(connection: Connection, request: UUID) -> Replay | None:
    return _find(connection, _ASKED_BY, request=str(request))


def _find(connection: Connection, statement: Select[Any], **asked: object) -> Replay | None:
    return next(_read(connection.execute(statement, asked)), None)


def _read(rows: Iterable[Row[Any]]) -> Iterator[Replay]:
    for row in REPLAY.readable(rows):
        kind: type[Order] = BackfillOrder if _IS_BACKFILL in row.asked else ReplayOrder
        try:
            order = msgspec.json.decode(row.asked, type=kind)
        except ValueError as error:
            BrokenRow(REPLAY, row, f"asked: {error}").tell()
            continue
        counted = {name: getattr(row, name) for name in _COUNTED}
        progress = ReplayProgress(**counted, is_collected=row.collected_to >= row.up_to)
        plain = {name: getattr(row, name) for name in _PLAIN}
        yield Replay(**plain, order=order, progress=progress)


def _write(connection: Connection, replay: Replay) -> Replay:
    connection.execute(update(replays).where(_THIS).values(_changing(replay)), {"this": replay.id})
    return replay


def _changing(replay: Replay) -> dict[str, Any]:
    return {
        "asked": msgspec.json.encode(replay.order).decode(),
        "state": replay.state.value,
        "reason": replay.reason,
        "collected_to": replay.collected_to,
        "next_at": replay.next_at,
        "ended_at": replay.ended_at,
        **{name: getattr(replay.progress, name) for name in _COUNTED},
    }


# A step


def _seen(connection: Connection, found: Replay, work: PastInstants | Failures) -> Replay:
    this = {"of_replay": found.id}
    rows = connection.execute(_ENDED, this).all()
    succeeded = [row.archived_id for row in rows if row.state in WENT_WELL]
    failed = [row.archived_id for row in rows if row.state not in WENT_WELL]
    failing = connection.scalar(_FAILING, this) or 0
    _move(connection, found.id, succeeded, ItemState.SUCCEEDED)
    _move(connection, found.id, failed, ItemState.FAILED)
    is_collected = found.progress.is_collected
    more = Collected(up_to=found.collected_to) if is_collected else work.collect(found)
    rows_of_items = [
        {
            "replay_id": found.id,
            "archived_id": item.number,
            "execution_id": item.execution_id,
            "item_key": item.key,
            "state": item.state.value,
        }
        for item in more.items
    ]
    if rows_of_items:
        connection.execute(_ADD, rows_of_items)
    refused = sum(item.state is ItemState.REFUSED for item in more.items)
    before = found.progress
    progress = attrs.evolve(
        before,
        waiting=before.waiting + len(more.items) - refused,
        released=before.released - len(rows),
        failing=failing,
        succeeded=before.succeeded + len(succeeded),
        failed=before.failed + len(failed),
        refused=before.refused + refused,
        left_out=before.left_out + more.left_out,
        is_collected=more.up_to >= found.up_to,
    )
    return attrs.evolve(found, progress=progress, collected_to=more.up_to)


def _choose(
    connection: Connection, replay: Replay, most: int, *, without: Collection[int]
) -> Mapping[int, int]:
    """Give items that may begin, with their executions: the oldest of each key that has room."""
    order = replay.order
    statement = excluding(_WAITING, _ITEM.archived_id, without)
    asked = {"of_replay": replay.id, "most": most}
    if isinstance(
        order, BackfillOrder
    ):  # of one key; to find the room of each of 100,000 items takes most of a second
        asked["most"] = min(most, order.at_once - replay.progress.released)
    elif order.key is not None:
        statement, asked["at_once"] = _with_room(without), order.at_once
    if asked["most"] <= 0:
        return {}
    return {row.archived_id: row.execution_id for row in connection.execute(statement, asked)}


def _with_room(without: Collection[int]) -> Select[Any]:
    """Ask for as many of each key as it has room for; what is locked takes none."""
    placed = excluding(_PLACED, _ITEM.archived_id, without).subquery("placed")
    return (
        select(placed.c.archived_id, placed.c.execution_id)
        .select_from(placed.outerjoin(_UNDER_WAY, placed.c.item_key == _UNDER_WAY.c.item_key))
        .where(placed.c.place + func.coalesce(_UNDER_WAY.c.number, 0) <= bindparam("at_once"))
        .order_by(placed.c.archived_id)
        .limit(bindparam("most"))
    )


def _move(connection: Connection, replay_id: int, ids: Collection[int], state: ItemState) -> None:
    if ids:
        asked = {"of_replay": replay_id, "ids": list(ids), "becomes": state.value}
        connection.execute(_MOVE, asked)
