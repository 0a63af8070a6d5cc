"""Replays of many and backfills: asked for once, then taken on by one scheduler at a time.

A step is one transaction with the order's row: what has ended is seen, more is collected as rows of
`ReplayItem`, and some begin.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

import attrs
import msgspec
from sqlalchemy import Connection, Engine, Row, Select, bindparam, func, insert, or_, select, update

from cronhare.domain.execution import UNFINISHED, Execution
from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.replay import REPLAYED, Allowance, replay, why_left_out
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import (
    FARTHEST,
    WENT_WELL,
    Halt,
    ItemState,
    Release,
    Replay,
    ReplayProgress,
    ReplayState,
    halted,
    is_due,
    next_step,
    resumed,
)
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.claims import Advance
from cronhare.ports.errors import LedgerRefused
from cronhare.ports.system import ClockPort

from ..attempts.starts import locked_elsewhere
from ..cooldown import Cooldown, excluding
from ..database import Database, repeatable
from ..dialect import Dialect, Locked, StatementFailed
from ..rows.changes import read_archived, write_changes
from ..rows.executions import BY_IDS, find_executions
from ..rows.own import REPLAY
from ..schema.tables import executions, failed_tasks, replay_items, replays
from ..schema.types import UtcDateTime
from .archive import known_id, resolve, those_of
from .backfill import COLLECTED_AT_ONCE, Collected, PastInstants, have_run

#: So many executions one step asks for, to learn whether they have ended.
SETTLED_AT_ONCE: Final = 10_000

#: So many more than may begin are chosen, look by look, while some turn out to be locked (ADR 15).
#: What is behind more locked ones waits for a later step.
SPARES: Final = (0, 100, 1_000)

#: So many replays that may be due are looked at. Those before a slow pace are not hidden by it.
_LOOKED_AT: Final = 100

_NEWEST: Final = select(replays).order_by(replays.c.id.desc())
_ASKED_BY: Final = select(replays).where(replays.c.request == bindparam("request"))
_THIS: Final = replays.c.id == bindparam("this")
_MAY_BE_DUE: Final = (
    replays.c.state == ReplayState.ACTIVE.value,
    or_(
        replays.c.next_at <= bindparam("now", type_=UtcDateTime),
        replays.c.next_at > bindparam("farthest", type_=UtcDateTime),
    ),
)
_NEXT: Final = (
    select(replays).where(*_MAY_BE_DUE).order_by(replays.c.next_at, replays.c.id).limit(_LOOKED_AT)
)
_TAKEN: Final = select(replays).where(_THIS, *_MAY_BE_DUE).with_for_update(skip_locked=True)

_ITEM: Final = replay_items.c
_OF_THIS: Final = _ITEM.replay_id == bindparam("of_replay")
_ADD: Final = insert(replay_items)
_MOVE: Final = (
    update(replay_items)
    .where(_OF_THIS, _ITEM.archived_id.in_(bindparam("ids", expanding=True)))
    .values(state=bindparam("becomes"))
)
_RELEASED: Final = (_OF_THIS, _ITEM.state == ItemState.RELEASED.value)
_UNENDED: Final = executions.c.state.in_(sorted(state.value for state in UNFINISHED))
#: Those that have not ended are not among them: many that hang would hide what ends behind them.
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

_FAILURE: Final = failed_tasks.c
_THESE: Final = _FAILURE.id.in_(bindparam("ids", expanding=True))
_UNRESOLVED: Final = select(_FAILURE.id).where(_THESE, _FAILURE.resolution.is_(None))
_UNLOCKED_FAILURES: Final = _UNRESOLVED.with_for_update(skip_locked=True)
_UNLOCKED: Final = BY_IDS.with_for_update(skip_locked=True)

_COUNTED: Final = ("waiting", "released", "failing", "succeeded", "failed", "refused", "left_out")


class SqlReplayStore:
    """Satisfies `ReplayStorePort`. What has a method here is one transaction."""

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        self._database = Database(engine, clock)
        self._passed_over = Cooldown()

    def order(
        self, order: ReplayOrder | BackfillOrder, *, now: datetime, request: UUID | None = None
    ) -> Replay:
        # Who is second at the index is repeated, and finds what the first has begun.
        put = self._order if request is None else repeatable(self._order)
        return put(order, now, request)

    def _order(
        self, order: ReplayOrder | BackfillOrder, now: datetime, request: UUID | None
    ) -> Replay:
        with self._database.write("ordering a replay") as connection:
            if request is not None and (begun := _find_request(connection, request)) is not None:
                return begun
            if isinstance(order, BackfillOrder):
                first, up_to = order.span
                looked_to = first - 1
            else:
                looked_to, up_to = 0, connection.scalar(select(func.max(_FAILURE.id))) or 0
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
        """Most looks find nothing, and take no lock."""
        for id_ in self._due(now):
            try:
                try:
                    advance = self._go_on(id_, now, node, policy, random_fraction)
                except LedgerRefused as refusal:
                    stopped = self.halt(id_, reason=str(refusal), now=now)
                    advance = None if stopped is None else Advance(replay=stopped)
            except (LedgerRefused, Locked, StatementFailed) as error:
                self._passed_over.note(id_, now, str(error))
                raise
            if advance is not None:
                return advance
        return None

    @repeatable
    def _due(self, now: datetime) -> Sequence[int]:
        statement = excluding(_NEXT, replays.c.id, self._passed_over.at(now))
        with self._database.read("looking for replays") as connection:
            found = connection.execute(statement, {"now": now, "farthest": now + FARTHEST})
            return [one.id for one in _read(found) if is_due(one, now)]

    @repeatable
    def _go_on(
        self,
        id_: int,
        now: datetime,
        node: str,
        policy: RetryPolicy,
        random_fraction: Callable[[], float],
    ) -> Advance | None:
        """Take a step of one; None if somebody else takes it, or has."""
        with self._database.write("going on with a replay") as connection:
            asked = {"this": id_, "now": now, "farthest": now + FARTHEST}
            found = next(_read(connection.execute(_TAKEN, asked)), None)
            if found is None or not is_due(found, now):
                return None
            if found.order is None:
                return Advance(replay=_write(connection, attrs.evolve(found, ended_at=now)))
            allowance = Allowance(attempts=found.order.attempts, policy=policy)
            at = (connection, self._database.dialect, allowance, now)
            if isinstance(found.order, BackfillOrder):
                advance = _step(found, PastInstants(*at, found.order, node), random_fraction)
            else:
                advance = _step(found, _Failures(*at, found.order), random_fraction)
            _write(connection, advance.replay)
            return advance


# Rows


def _find_request(connection: Connection, request: UUID) -> Replay | None:
    return next(_read(connection.execute(_ASKED_BY, {"request": str(request)})), None)


def _find(connection: Connection, replay_id: int, *, locking: bool = False) -> Replay | None:
    statement = select(replays).where(_THIS)
    if locking:
        statement = statement.with_for_update()
    return next(_read(connection.execute(statement, {"this": known_id(replay_id)})), None)


def _read(rows: Iterable[Row[Any]]) -> Iterator[Replay]:
    """Read rows. One whose order cannot be read has stopped, and its reason says why."""
    for row in REPLAY.readable(rows):
        order: ReplayOrder | BackfillOrder | None = None
        state, reason = row.state, row.reason
        try:
            if msgspec.json.decode(row.asked, type=_Kind).kind == "backfill":
                order = msgspec.json.decode(row.asked, type=BackfillOrder)
            else:
                order = msgspec.json.decode(row.asked, type=ReplayOrder)
        except (ValueError, RecursionError) as error:
            state, reason = ReplayState.STOPPED, f"its order cannot be read: {error}"
        yield Replay(
            id=row.id,
            order=order,
            created_at=row.created_at,
            up_to=row.up_to,
            collected_to=row.collected_to,
            state=state,
            reason=reason,
            next_at=row.next_at,
            ended_at=row.ended_at,
            progress=ReplayProgress(
                **{name: getattr(row, name) for name in _COUNTED},
                is_collected=row.collected_to >= row.up_to,
            ),
        )


@attrs.frozen
class _Kind:
    kind: str = "replay"


def _write(connection: Connection, replay: Replay) -> Replay:
    connection.execute(update(replays).where(_THIS).values(_changing(replay)), {"this": replay.id})
    return replay


def _changing(replay: Replay) -> dict[str, Any]:
    values = {
        "state": replay.state.value,
        "reason": replay.reason,
        "collected_to": replay.collected_to,
        "next_at": replay.next_at,
        "ended_at": replay.ended_at,
        **{name: getattr(replay.progress, name) for name in _COUNTED},
    }
    if replay.order is not None:
        values["asked"] = msgspec.json.encode(replay.order).decode()
    return values


# A step


@attrs.define
class _Failures:
    """What a replay of many is about: rows of the archive. See `PastInstants`."""

    connection: Connection
    dialect: Dialect
    allowance: Allowance
    now: datetime
    order: ReplayOrder
    _locked: dict[int, Execution] = attrs.field(init=False, factory=dict)

    def why_impossible(self) -> str:
        return ""

    def collect(self, found: Replay) -> Collected:
        # They are long, and of no use here.
        unread: dict[str, Any] = {"error": None, "note": None}
        if not self.order.reads_params:
            unread["params"] = "{}"
        page = (
            select(*(column for column in _FAILURE if column.name not in unread))
            .where(
                _FAILURE.id > found.collected_to,
                _FAILURE.id <= found.up_to,
                *those_of(self.order.which, self.dialect),
            )
            .order_by(_FAILURE.id)
            .limit(COLLECTED_AT_ONCE)
        )
        unread = {"error": None, "note": None} | (
            {} if self.order.reads_params else {"params": "{}"}
        )
        rows = self.connection.execute(page).all()
        return Collected(
            items=[
                {
                    "replay_id": found.id,
                    "archived_id": row.id,
                    "execution_id": row.execution_id,
                    "item_key": self.order.key_of(row),
                    "state": ItemState.WAITING.value,
                }
                for row in read_archived(rows, **unread)
            ],
            up_to=rows[-1].id if len(rows) == COLLECTED_AT_ONCE else found.up_to,
        )

    def lock(self, chosen: Mapping[int, int]) -> tuple[Sequence[int], set[int]]:
        if not chosen:
            return (), set()
        ids = {"ids": list(chosen)}
        refused = chosen.keys() - set(self.connection.scalars(_UNRESOLVED, ids))
        unlocked = sorted(self.connection.scalars(_UNLOCKED_FAILURES, ids))
        wanted = {id_: chosen[id_] for id_ in unlocked}
        found = find_executions(self.connection, _UNLOCKED, wanted.values())
        missing = {known_id(id_) for id_ in wanted.values()} - found.keys()
        locked = locked_elsewhere(self.connection, missing)
        free, taken = list[int](), set[int]()
        for id_, execution_id in wanted.items():
            execution = found.get(execution_id)
            if execution is None:
                refused |= set() if execution_id in locked else {id_}
            elif execution_id in taken or why_left_out(execution) is not None:
                refused.add(id_)
            else:
                taken.add(execution_id)
                free.append(id_)
                self._locked[id_] = execution
        return free, refused

    def begin(self, replay_id: int, begins: Mapping[int, datetime]) -> Mapping[int, Execution]:
        before = {id_: self._locked[id_] for id_ in begins}
        begun = {
            id_: replay(one, begins=begins[id_], allowance=self.allowance)
            for id_, one in before.items()
        }
        if begun:
            changes = [(before[id_], after) for id_, after in begun.items()]
            write_changes(self.connection, self.dialect, changes)
            resolve(self.connection, begun, REPLAYED, self.now, f"replay {replay_id}")
        return begun


_Work: TypeAlias = PastInstants | _Failures


def _step(found: Replay, work: _Work, random_fraction: Callable[[], float]) -> Advance:
    """Take a step; the replay is still to be written."""
    if why := work.why_impossible():
        return Advance(replay=halted(found, why, now=work.now))
    seen = _seen(found, work)
    step = next_step(
        work.order,
        seen.progress,
        next_at=seen.next_at,
        now=work.now,
        random_fraction=random_fraction,
    )
    if isinstance(step, Halt):
        ended = attrs.evolve(seen, state=step.state, reason=step.reason, ended_at=work.now)
        return Advance(replay=ended)
    return _release(seen, work, step)


def _seen(found: Replay, work: _Work) -> Replay:
    """Take note of what has ended, and of more that is to begin."""
    connection = work.connection
    ended: dict[ItemState, list[int]] = {ItemState.SUCCEEDED: [], ItemState.FAILED: []}
    for row in connection.execute(_ENDED, {"of_replay": found.id}):
        went = ItemState.SUCCEEDED if row.state in WENT_WELL else ItemState.FAILED
        ended[went].append(row.archived_id)
    failing = connection.scalar(_FAILING, {"of_replay": found.id}) or 0
    for state, ids in ended.items():
        _move(connection, found.id, ids, state)
    more = Collected(up_to=found.collected_to) if found.is_collected else work.collect(found)
    if more.items:
        connection.execute(_ADD, more.items)
    refused = sum(item["state"] == ItemState.REFUSED.value for item in more.items)
    succeeded, failed = (len(ids) for ids in ended.values())
    before = found.progress
    progress = attrs.evolve(
        before,
        waiting=before.waiting + len(more.items) - refused,
        released=before.released - succeeded - failed,
        failing=failing,
        succeeded=before.succeeded + succeeded,
        failed=before.failed + failed,
        refused=before.refused + refused,
        left_out=before.left_out + more.left_out,
        is_collected=more.up_to >= found.up_to,
    )
    return attrs.evolve(found, progress=progress, collected_to=more.up_to)


def _release(seen: Replay, work: _Work, step: Release) -> Advance:
    """Let as many begin as the step says, past those that somebody keeps locked."""
    free: Sequence[int] = ()
    refused, locked = set[int](), set[int]()
    for spare in SPARES if step.begins else ():
        chosen = _choose(seen, work, len(step.begins) + spare, without=locked)
        free, refused = work.lock(chosen)
        held = chosen.keys() - refused - set(free)
        locked |= held
        if not held or len(free) >= len(step.begins):
            break
    tried = dict(zip(free, step.begins, strict=False))
    begun = work.begin(seen.id, tried)
    refused |= tried.keys() - begun.keys()
    _move(work.connection, seen.id, begun, ItemState.RELEASED)
    _move(work.connection, seen.id, refused, ItemState.REFUSED)
    before, moved = seen.progress, len(begun) + len(refused)
    after = attrs.evolve(
        before,
        waiting=before.waiting - moved,
        released=before.released + len(begun),
        refused=before.refused + len(refused),
    )
    next_at = step.looks_again_at(moved, work.now)
    return Advance(
        replay=attrs.evolve(seen, next_at=next_at, reason=step.waits_for, progress=after),
        executions=tuple(begun.values()),
    )


def _choose(
    replay: Replay, work: _Work, most: int, *, without: Collection[int]
) -> Mapping[int, int]:
    """Give the executions of items that may begin, the oldest first: of each key as have room.

    Those *without* which it is to do are locked: they take no room of their key.
    """
    order = work.order
    # To find the room of each key among 100,000 items takes most of a second.
    if order.is_of_one_key:
        most = max(min(most, order.at_once - replay.progress.released), 0)
    asked = {"of_replay": replay.id, "most": most}
    statement = excluding(_WAITING, _ITEM.archived_id, without)
    if order.key is not None and not order.is_of_one_key:
        statement, asked["at_once"] = _with_room(without), order.at_once
    return {row.archived_id: row.execution_id for row in work.connection.execute(statement, asked)}


def _with_room(without: Collection[int]) -> Select[Any]:
    """Ask for as many of each key as it has room for."""
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
