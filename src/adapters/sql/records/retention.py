"""Deleting old history in short transactions, so that the ledger goes on between them.

What a class of tasks keeps (S2.3 in docs/compatibility.md) stands in the rows of its schedules: an
execution has no column for it. Where no row says so, this is one statement that finds nothing.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import chain
from typing import Any, Final

import attrs
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    not_,
    select,
)

from cronhare.application.logs import say
from cronhare.domain.execution import ENDED_WITHOUT_RESULT, REPLAYABLE, State
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.schedules.boot import LONGEST_AGO
from cronhare.domain.schedules.keys import BOOT
from cronhare.domain.schedules.retention import LATELY, KeptClass, by_class
from cronhare.ports.errors import LedgerRefused
from cronhare.ports.records import Retention

from ..audit import forget_audit
from ..database import Database, repeatable_unless_locked
from ..gates import forget_gates
from ..isolation import Written, write_each
from ..rows.executions import batches
from ..rows.schedules import LONGEST_RETENTION, read_retention
from ..schema.tables import (
    AWAITS_A_PERSON,
    THESE,
    by_id,
    executions,
    replay_items,
    replays,
    schedulers,
)
from ..schema.types import UtcDateTime

#: So many executions, or failures of a replay, are looked at or deleted in one transaction.
STEP = 1_000

log = logging.getLogger(__name__)

_ENDED = func.coalesce(executions.c.finished_at, executions.c.executed_at)
# A run at a boot must be known as long as it may be asked for again. It does not count.
_COUNTS = not_(
    and_(
        executions.c.execution_key.startswith(BOOT),
        bindparam("booted", type_=UtcDateTime) <= _ENDED,
    )
)
_SUCCEEDED = executions.c.state == State.SUCCEEDED.value
_FAILED = executions.c.state.in_([state.value for state in REPLAYABLE])

# What has not ended has no limit: nothing is earlier than NULL.
_LIMIT = case(
    (_SUCCEEDED, bindparam("completed", type_=UtcDateTime)),
    (_FAILED, bindparam("failed", type_=UtcDateTime)),
    (
        executions.c.state.in_([state.value for state in ENDED_WITHOUT_RESULT]),
        bindparam("others", type_=UtcDateTime),
    ),
)
_OUTLIVED = select(executions.c.id).where(
    executions.c.id.between(bindparam("first"), bindparam("last")),
    _ENDED < _LIMIT,
    ~AWAITS_A_PERSON,
)
_NEXT = select(func.min(executions.c.id)).where(executions.c.id > bindparam("last"))
# Counted in two steps. An index alone tells which schedules have many rows, a million in a second;
# how many of these succeeded is asked for those few schedules.
_MANY_ROWS = (
    select(executions.c.scheduler_id)
    .group_by(executions.c.scheduler_id)
    .having(func.count() > bindparam("most"))
)
_SURPLUS = select(func.count() - bindparam("most")).where(
    _SUCCEEDED, _COUNTS, executions.c.scheduler_id == bindparam("scheduler_id")
)
_OLDEST = (
    select(executions.c.id)
    .where(_SUCCEEDED, _COUNTS, executions.c.scheduler_id == bindparam("scheduler_id"))
    .order_by(executions.c.id)
    .limit(bindparam("surplus"))
)
_DELETE = delete(executions).where(THESE)

_OLD = replays.c.ended_at < bindparam("limit", type_=UtcDateTime)
_NEXT_REPLAY = select(func.min(replays.c.id)).where(replays.c.id > bindparam("after"), _OLD)
_REPLAY = replays.c.id == bindparam("replay_id")
_UNLOCKED_REPLAY = select(replays.c.id).where(_REPLAY, _OLD).with_for_update(skip_locked=True)
_ITEMS = (
    select(replay_items.c.archived_id)
    .where(replay_items.c.replay_id == bindparam("replay_id"))
    .limit(STEP)
)
_UNLOCKED_ITEMS = _ITEMS.with_for_update(skip_locked=True)
_FORGET_ITEMS = delete(replay_items).where(
    replay_items.c.replay_id == bindparam("replay_id"),
    replay_items.c.archived_id.in_(bindparam("ids", expanding=True)),
)
_FORGET_REPLAY = delete(replays).where(_REPLAY)

#: So many schedules are asked for in one statement.
_SCHEDULES: Final = 1_000

_ROWS: Final = select(schedulers.c.id, schedulers.c.source, schedulers.c.retention).where(
    schedulers.c.retention.is_not(None), func.length(schedulers.c.retention) <= LONGEST_RETENTION
)


@attrs.frozen(kw_only=True)
class _Statements:
    """How the newest runs of some schedules are found, and those that are no longer kept."""

    newest: Select[Any]
    count: Select[Any]
    oldest: Select[Any]


def _statements(state: ColumnElement[bool]) -> _Statements:
    ours = state, _COUNTS, executions.c.scheduler_id.in_(bindparam("schedulers", expanding=True))
    surplus = (
        *ours,
        executions.c.id <= bindparam("newest_surplus"),
        bindparam("lately", type_=UtcDateTime) > _ENDED,
        ~AWAITS_A_PERSON,
    )
    ids = select(executions.c.id)
    return _Statements(
        newest=ids.where(*ours).order_by(executions.c.id.desc()).limit(bindparam("most")),
        count=select(func.count()).select_from(executions).where(*surplus),
        oldest=ids.where(*surplus).order_by(executions.c.id).limit(bindparam("surplus")),
    )


_OF_DONE: Final = _statements(_SUCCEEDED)
_OF_FAILED: Final = _statements(_FAILED)


def clean_up(
    database: Database, *, now: datetime, retention: Retention, between: Callable[[], None]
) -> int:
    """Delete what has ended and outlived its retention, with attempts and output."""
    limits = {
        "completed": now - retention.completed,
        "failed": now - retention.failed,
        "others": now - retention.others,
    }
    deleted = 0
    for step in chain(
        _delete_outlived(database, limits),
        _delete_surplus(database, retention.completed_rows, booted=now - LONGEST_AGO),
        _delete_surplus_of_classes(database, {"lately": now - LATELY, "booted": now - LONGEST_AGO}),
    ):
        deleted += step
        between()
    for _ in chain(
        forget_gates(database, now),
        _forget_replays(database, limits["others"]),
        forget_audit(database, now - retention.audit),
    ):
        between()
    return deleted


def _delete_outlived(database: Database, limits: dict[str, datetime]) -> Iterator[int]:
    """Walk through all ids in windows, which needs no index of ends and no sort.

    Each window begins at the next existing id: one written by hand may be far away.
    """
    last = -LARGEST_ID
    while (first := _next_id(database, last)) is not None:
        last = min(first + STEP - 1, LARGEST_ID)
        yield _delete(database, _OUTLIVED, {**limits, "first": first, "last": last})


def _next_id(database: Database, last: int) -> int | None:
    with database.read("looking for old history") as connection:
        first: int | None = connection.execute(_NEXT, {"last": last}).scalar_one()
    return first


def _delete_surplus(database: Database, most: int, *, booted: datetime) -> Iterator[int]:
    with database.read("counting what is kept") as connection:
        busy = connection.scalars(_MANY_ROWS, {"most": most}).all()
    for scheduler_id in busy:
        asked = {"scheduler_id": scheduler_id, "booted": booted}
        with database.read("counting what is kept") as connection:
            surplus = connection.scalar(_SURPLUS, {**asked, "most": most})
        yield from _delete_oldest(database, _OLDEST, asked, surplus or 0)


def _delete_oldest(
    database: Database, which: Select[Any], asked: dict[str, Any], surplus: int
) -> Iterator[int]:
    """Delete so many, step by step."""
    for done in range(0, surplus, STEP):
        yield _delete(database, which, {**asked, "surplus": min(STEP, surplus - done)})


def _delete(database: Database, which: Select[Any], asked: dict[str, Any]) -> int:
    """Delete what is to go; keep, and log, what another table refers to."""
    with database.read("looking for old history") as connection:
        ids = list(connection.scalars(which, asked))

    @repeatable_unless_locked
    def delete_them(part: Sequence[int]) -> Written[int]:
        with database.write("deleting old history") as connection:
            # What is locked, for a replay perhaps, is looked at another day.
            unlocked = by_id(which).with_for_update(skip_locked=True)
            found = list(connection.scalars(unlocked, {**asked, "ids": part}))
            if found:
                connection.execute(_DELETE, {"ids": found})
            return Written([len(found)], changed=bool(found))

    def keep(id_: int, why: Exception) -> Sequence[int]:
        text = f"Execution {id_} is kept: {why}"
        say(log, logging.WARNING, "cleanup.refused", text, execution=id_)
        return ()

    return sum(write_each(ids, delete_them, refused=keep, doubted=keep, locked=lambda _: ()))


def _delete_surplus_of_classes(database: Database, times: dict[str, datetime]) -> Iterator[int]:
    for kept in _classes(database):
        for statements, most in ((_OF_DONE, kept.keep.done), (_OF_FAILED, kept.keep.failed)):
            if most is not None:
                yield from _delete_surplus_of(database, statements, kept.schedulers, most, times)


def _classes(database: Database) -> Sequence[KeptClass]:
    """Leave out rows that cannot be read: the list of schedules says what is wrong with them."""
    with database.read("looking for classes") as connection:
        rows = connection.execute(_ROWS).all()
    return by_class(
        (row.id, row.source if isinstance(row.source, str) else None, retention)
        for row in rows
        if (retention := read_retention(row.retention)[0]) is not None
    )


def _delete_surplus_of(
    database: Database,
    statements: _Statements,
    schedulers: Sequence[int],
    most: int,
    times: dict[str, datetime],
) -> Iterator[int]:
    pieces = list(batches(schedulers, _SCHEDULES))
    newest: list[int] = []
    for piece in pieces:
        asked = {**times, "schedulers": piece, "most": most + 1}
        with database.read("counting what is kept") as connection:
            newest = nlargest(most + 1, [*newest, *connection.scalars(statements.newest, asked)])
    if len(newest) <= most:
        return
    for piece in pieces:
        asked = {**times, "schedulers": piece, "newest_surplus": newest[-1]}
        with database.read("counting what is kept") as connection:
            surplus = connection.scalar(statements.count, asked)
        yield from _delete_oldest(database, statements.oldest, asked, surplus or 0)


def _forget_replays(database: Database, before: datetime) -> Iterator[None]:
    """Delete, step by step, replays that ended before then. What is locked goes another day."""
    after: int | None = 0
    while True:
        with database.read("looking for old replays") as connection:
            after = connection.scalar(_NEXT_REPLAY, {"after": after, "limit": before})
        if after is None:
            return
        try:
            while _forget_some(database, after, before) == STEP:
                yield
        except LedgerRefused as refusal:
            text = f"Replay {after} is kept: {refusal}"
            say(log, logging.WARNING, "cleanup.refused", text)
        yield


def _forget_some(database: Database, replay_id: int, before: datetime) -> int:
    """Delete some of its failures; with the last of them the replay itself."""
    this = {"replay_id": replay_id, "limit": before}
    with database.write("deleting old replays") as connection:
        if connection.execute(_UNLOCKED_REPLAY, this).first() is None:
            return 0
        ids = list(connection.scalars(_UNLOCKED_ITEMS, this))
        if ids:
            connection.execute(_FORGET_ITEMS, {**this, "ids": ids})
        if len(ids) < STEP and connection.execute(_ITEMS, this).first() is None:
            connection.execute(_FORGET_REPLAY, this)
    return len(ids)
