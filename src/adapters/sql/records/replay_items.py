"""The items of a replay: found in the archive, judged by their executions, chosen to begin."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs
from sqlalchemy import Connection, Select, bindparam, func, insert, or_, select, update

from cronhare.domain.execution import UNFINISHED, Execution
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.replay_order import Pacing, ReplayOrder
from cronhare.domain.lifecycle.replay_pace import WENT_WELL, ItemState, Replay

from ..cooldown import excluding
from ..dialect import Dialect
from ..mapping.archive_rows import read_archived
from ..schema.tables import executions, failed_tasks, replay_items
from .failure_conditions import those_of

#: Rows of the archive that one step looks at, and executions whose end it asks for.
COLLECTED_AT_ONCE: Final = 1_000
SETTLED_AT_ONCE: Final = 10_000

_ITEM = replay_items.c
_THIS: Final = _ITEM.replay_id == bindparam("of_replay")
_INSERT: Final = insert(replay_items)
_NEWEST: Final = select(func.max(_ITEM.archived_id)).where(_THIS)
_RELEASED: Final = (_THIS, _ITEM.state == ItemState.RELEASED.value)
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
_MOVE: Final = (
    update(replay_items)
    .where(_THIS, _ITEM.archived_id.in_(bindparam("ids", expanding=True)))
    .values(state=bindparam("becomes"))
)
_NOTE: Final = (
    update(replay_items)
    .where(_THIS, _ITEM.archived_id == bindparam("item"))
    .values(execution_id=bindparam("run"))
)
_WAITING: Final = (
    select(_ITEM.archived_id, _ITEM.execution_id)
    .where(_THIS, _ITEM.state == ItemState.WAITING.value)
    .order_by(_ITEM.archived_id)
    .limit(bindparam("most"))
)
_PLACED: Final = select(
    _ITEM.archived_id,
    _ITEM.execution_id,
    _ITEM.item_key,
    func.row_number().over(partition_by=_ITEM.item_key, order_by=_ITEM.archived_id).label("place"),
).where(_THIS, _ITEM.state == ItemState.WAITING.value)
_UNDER_WAY: Final = (
    select(_ITEM.item_key, func.count().label("number"))
    .where(_THIS, _ITEM.state == ItemState.RELEASED.value)
    .group_by(_ITEM.item_key)
    .subquery("under_way")
)
#: What is read of the archive; errors and outputs are long, and params where no key is in them.
_READ: Final = [
    column for column in failed_tasks.c if column.name not in {"error", "note", "params"}
]


@attrs.frozen(kw_only=True)
class Collected:
    """How many items are new, how many cannot begin, and up to where it was looked.

    Instants that are *left out* are no items.
    """

    new: int = 0
    refused: int = 0
    left_out: int = 0
    up_to: int


@attrs.frozen(kw_only=True)
class Found:
    """Of what was chosen: which items are *free* to begin, in order, and which never can.

    *free* has their executions, where they have any. Others are *locked* by somebody else.
    """

    free: Mapping[int, Execution | None] = {}
    refused: Collection[int] = ()
    locked: Collection[int] = ()


@attrs.frozen(kw_only=True)
class Begun:
    """What has begun, by item, and which items cannot begin; the others wait."""

    begun: Mapping[int, Execution] = {}
    refused: Collection[int] = ()


def come_to(connection: Connection, replay: Replay) -> int:
    """Tell how far has been looked; whatever a hand wrote of it, no item is collected twice."""
    newest = connection.scalar(_NEWEST, {"of_replay": replay.id})
    return replay.collected_to if newest is None else max(replay.collected_to, newest)


def collect(
    connection: Connection, dialect: Dialect, replay: Replay, order: ReplayOrder
) -> Collected:
    """Look at some more of the archive."""
    columns = [*_READ, failed_tasks.c.params] if order.reads_params else _READ
    page = (
        select(*columns)
        .where(
            failed_tasks.c.id > come_to(connection, replay),
            failed_tasks.c.id <= replay.up_to,
            *those_of(order.which, dialect),
        )
        .order_by(failed_tasks.c.id)
        .limit(COLLECTED_AT_ONCE)
    )
    rows = connection.execute(page).all()
    unread = {"error": None, "note": None} | ({} if order.reads_params else {"params": "{}"})
    found = read_archived(rows, **unread)
    if found:
        connection.execute(_INSERT, [_values(replay, order, row) for row in found])
    up_to = rows[-1].id if len(rows) == COLLECTED_AT_ONCE else replay.up_to
    return Collected(new=len(found), up_to=up_to)


def add_items(
    connection: Connection, replay_id: int, ids: Mapping[int, ItemState], *, key: str
) -> None:
    """Write items that have one key and no executions yet."""
    if ids:
        same = {"replay_id": replay_id, "execution_id": 0, "item_key": key}
        rows = [{**same, "archived_id": id_, "state": state.value} for id_, state in ids.items()]
        connection.execute(_INSERT, rows)


def note_executions(
    connection: Connection, dialect: Dialect, replay_id: int, begun: Mapping[int, Execution]
) -> None:
    """Write which executions are those of items that had none."""
    rows = [{"of_replay": replay_id, "item": id_, "run": one.id} for id_, one in begun.items()]
    if rows:
        dialect.update_many(connection, _NOTE, rows)


def settle(connection: Connection, replay: Replay) -> Mapping[ItemState, int]:
    """Learn what became of those that have begun; `RELEASED` counts those that fail for now."""
    ended: dict[ItemState, list[int]] = {ItemState.SUCCEEDED: [], ItemState.FAILED: []}
    this = {"of_replay": replay.id}
    for row in connection.execute(_ENDED, this):
        went = ItemState.SUCCEEDED if row.state in WENT_WELL else ItemState.FAILED
        ended[went].append(row.archived_id)
    failing = connection.scalar(_FAILING, this) or 0
    for state, ids in ended.items():
        move(connection, replay.id, ids, state)
    return {state: len(ids) for state, ids in ended.items()} | {ItemState.RELEASED: failing}


def choose(
    connection: Connection,
    replay: Replay,
    order: Pacing,
    most: int,
    *,
    without: Collection[int] = (),
) -> Mapping[int, int]:
    """Give the executions of rows that may begin, the oldest first: of each key as have room.

    Those *without* which it is to do are locked: they take no room of their key.
    """
    # To find the room of each key among 100,000 items takes most of a second.
    if order.is_of_one_key:
        most = max(min(most, order.at_once - replay.progress.released), 0)
    asked = {"of_replay": replay.id, "most": most}
    if order.key is None or order.is_of_one_key:
        rows = connection.execute(excluding(_WAITING, _ITEM.archived_id, without), asked)
    else:
        rows = connection.execute(_with_room(without), {**asked, "at_once": order.at_once})
    return {row.archived_id: row.execution_id for row in rows}


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


def move(connection: Connection, replay_id: int, ids: Collection[int], state: ItemState) -> None:
    """Write what became of some."""
    if ids:
        connection.execute(
            _MOVE, {"of_replay": replay_id, "ids": list(ids), "becomes": state.value}
        )


def _values(replay: Replay, order: ReplayOrder, row: Archived) -> dict[str, Any]:
    return {
        "replay_id": replay.id,
        "archived_id": row.id,
        "execution_id": row.execution_id,
        "item_key": order.key_of(row),
        "state": ItemState.WAITING.value,
    }
