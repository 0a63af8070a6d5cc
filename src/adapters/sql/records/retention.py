"""Deleting old history in short transactions, so that the ledger goes on between them.

What a class of tasks keeps (S2.3 in docs/compatibility.md) stands in the rows of its schedules: an
execution has no column for it. Where no row says so, this is one statement that finds nothing.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import chain
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, delete, func, not_, select

from cronhare.application.logs import say
from cronhare.domain.execution import ENDED_WITHOUT_RESULT, REPLAYABLE, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.retries.limits import IDLE_FOR
from cronhare.domain.retries.retry import KEPT_FOR as HOLDS_KEPT_FOR
from cronhare.domain.schedules.keys import BOOT, LONGEST_AGO
from cronhare.domain.schedules.task import LATELY, Keep, by_class
from cronhare.ports.records import Retention

from ..database import STEP, Database, forget, repeatable_unless_locked
from ..gates import KEPT_FOR as GATES_KEPT_FOR
from ..tables.executions import batches, in_states
from ..tables.schedules import LONGEST_RETENTION, read_retention
from ..tables.tables import (
    AWAITS_A_PERSON,
    THESE,
    audit,
    breakers,
    budgets,
    by_id,
    executions,
    gates,
    holds,
    replay_items,
    replays,
    schedulers,
)
from ..tables.types import moment_of
from ..writing import Written, write_each

#: One statement asks for at most so many schedules.
_SCHEDULES: Final = 1_000

log = logging.getLogger(__name__)

_ROW: Final = executions.c
_ENDED = func.coalesce(_ROW.finished_at, _ROW.executed_at)
_SUCCEEDED = _ROW.state == State.SUCCEEDED.value
_FAILED = in_states(REPLAYABLE)

# What has not ended has no limit: nothing is earlier than NULL.
_LIMIT = case(
    (_SUCCEEDED, moment_of("completed")),
    (_FAILED, moment_of("failed")),
    (in_states(ENDED_WITHOUT_RESULT), moment_of("others")),
)
_OUTLIVED = select(_ROW.id).where(
    _ROW.id.between(bindparam("first"), bindparam("last")), _ENDED < _LIMIT, ~AWAITS_A_PERSON
)
_NEXT = select(func.min(_ROW.id)).where(_ROW.id > bindparam("last"))
_DELETE = delete(executions).where(THESE)

#: Schedules with many rows: an index alone tells them, of a million rows in a second.
_MANY_ROWS = (
    select(_ROW.scheduler_id).group_by(_ROW.scheduler_id).having(func.count() > bindparam("most"))
)
_CLASSES: Final = select(schedulers.c.id, schedulers.c.source, schedulers.c.retention).where(
    schedulers.c.retention.is_not(None), func.length(schedulers.c.retention) <= LONGEST_RETENTION
)
# A run at a boot must be known as long as it may be asked for again. It does not count.
_COUNTS = not_(and_(_ROW.execution_key.startswith(BOOT), moment_of("booted") <= _ENDED))


def _of_schedules(state: ColumnElement[bool]) -> tuple[Select[Any], Select[Any]]:
    ours = state, _COUNTS, _ROW.scheduler_id.in_(bindparam("schedulers", expanding=True))
    surplus = (
        _ROW.id > bindparam("after"),
        _ROW.id <= bindparam("newest_surplus"),
        moment_of("lately") >= _ENDED,
        ~AWAITS_A_PERSON,
    )
    ids = select(_ROW.id).where(*ours)
    return (
        ids.order_by(_ROW.id.desc()).limit(bindparam("most")),
        ids.where(*surplus).order_by(_ROW.id).limit(STEP),
    )


_OF_DONE: Final = _of_schedules(_SUCCEEDED)
_OF_FAILED: Final = _of_schedules(_FAILED)


def clean_up(database: Database, *, now: datetime, retention: Retention) -> int:
    """Delete what has ended and outlived its retention, with attempts and output."""
    limits = {
        "completed": now - retention.completed,
        "failed": now - retention.failed,
        "others": now - retention.others,
    }
    deleted = sum(
        chain(
            _delete_outlived(database, limits),
            _delete_beyond(database, retention.completed_rows, now),
            _delete_surplus_of_classes(database, now),
        )
    )
    is_old = replays.c.ended_at < limits["others"]
    of_old = replay_items.c.replay_id.in_(select(replays.c.id).where(is_old))
    forget(database, gates, gates.c.used_at < now - GATES_KEPT_FOR)
    forget(database, replay_items, of_old)  # there may be 100,000 of one replay
    forget(database, replays, is_old)
    forget(database, audit, audit.c.at < now - retention.audit)
    forget(database, budgets, budgets.c.last_at < now - IDLE_FOR)
    forget(database, breakers, breakers.c.last_at < now - IDLE_FOR)
    forget(database, holds, holds.c.at < now - HOLDS_KEPT_FOR)
    return deleted


def _delete_outlived(database: Database, limits: Mapping[str, datetime]) -> Iterator[int]:
    """Walk through all ids in windows, which needs no index of ends and no sort.

    Each window begins at the next existing id: one written by hand may be far away.
    """
    last = -LARGEST_ID
    while True:
        with database.read("looking for old history") as connection:
            first = connection.scalar(_NEXT, {"last": last})
        if first is None:
            return
        last = min(first + STEP - 1, LARGEST_ID)
        asked = {**limits, "first": first, "last": last}
        yield _delete(database, _OUTLIVED, asked, _find(database, _OUTLIVED, asked))


def _delete_beyond(database: Database, most: int, now: datetime) -> Iterator[int]:
    with database.read("counting what is kept") as connection:
        busy = connection.scalars(_MANY_ROWS, {"most": most}).all()
    for scheduler_id in busy:
        yield from _delete_surplus(database, _OF_DONE, [scheduler_id], most, lately=now, now=now)


def _delete_surplus_of_classes(database: Database, now: datetime) -> Iterator[int]:
    lately = now - LATELY
    for ours, keep in _classes(database):
        for statements, most in ((_OF_DONE, keep.done), (_OF_FAILED, keep.failed)):
            if most is not None:
                yield from _delete_surplus(database, statements, ours, most, lately=lately, now=now)


def _classes(database: Database) -> Sequence[tuple[Sequence[int], Keep]]:
    """Leave out rows that cannot be read: the list of schedules says what is wrong with them."""
    with database.read("looking for classes") as connection:
        rows = connection.execute(_CLASSES).all()
    return by_class(
        (row.id, row.source if isinstance(row.source, str) else None, retention)
        for row in rows
        if (retention := read_retention(row.retention)[0]) is not None
    )


def _delete_surplus(
    database: Database,
    statements: tuple[Select[Any], Select[Any]],
    schedulers: Sequence[int],
    most: int,
    *,
    lately: datetime,
    now: datetime,
) -> Iterator[int]:
    newest_of, surplus_of = statements
    times = {"lately": lately, "booted": now - LONGEST_AGO}
    pieces = list(batches(schedulers, _SCHEDULES))
    newest: list[int] = []
    for piece in pieces:
        asked = {**times, "schedulers": piece, "most": most + 1}
        newest = nlargest(most + 1, [*newest, *_find(database, newest_of, asked)])
    if len(newest) <= most:
        return
    for piece in pieces:
        asked = {**times, "schedulers": piece, "newest_surplus": newest[-1], "after": -LARGEST_ID}
        is_more = True
        while is_more and (ids := _find(database, surplus_of, asked)):
            yield _delete(database, surplus_of, asked, ids)
            asked["after"], is_more = ids[-1], len(ids) == STEP


def _find(database: Database, which: Select[Any], asked: Mapping[str, Any]) -> Sequence[int]:
    with database.read("looking for old history") as connection:
        return connection.scalars(which, asked).all()


def _delete(
    database: Database, which: Select[Any], asked: Mapping[str, Any], ids: Sequence[int]
) -> int:
    """Delete these, if they are still to go; keep, and log, what another table refers to."""

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

    return sum(write_each(ids, delete_them, refused=keep, locked=lambda _: ()))
