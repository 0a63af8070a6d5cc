"""Deleting old history in short transactions, so that the ledger goes on between them."""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Select, bindparam, case, delete, func, select

from cronhare.application.logs import say
from cronhare.domain.execution import ENDED_WITHOUT_RESULT, REPLAYABLE, State
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.schedules.boot import LONGEST_AGO
from cronhare.domain.schedules.retention import LATELY
from cronhare.ports.records import Retention

from ..audit import forget_audit
from ..gates.forgetting import forget_gates
from ..isolation import Written, write_each
from ..mapping.deletable import AWAITS_A_PERSON, COUNTS, ENDED
from ..schema.tables import THESE, by_id, executions
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable_unless_locked
from .class_retention import surplus_of_classes
from .old_replays import forget_replays

#: So many executions are looked at, or deleted, in one transaction.
STEP = 1_000

log = logging.getLogger(__name__)

_SUCCEEDED = executions.c.state == State.SUCCEEDED.value

# What has not ended has no limit: nothing is earlier than NULL.
_LIMIT = case(
    (_SUCCEEDED, bindparam("completed", type_=UtcDateTime)),
    (
        executions.c.state.in_([state.value for state in REPLAYABLE]),
        bindparam("failed", type_=UtcDateTime),
    ),
    (
        executions.c.state.in_([state.value for state in ENDED_WITHOUT_RESULT]),
        bindparam("others", type_=UtcDateTime),
    ),
)
_OUTLIVED = select(executions.c.id).where(
    executions.c.id.between(bindparam("first"), bindparam("last")),
    ENDED < _LIMIT,
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
    _SUCCEEDED, COUNTS, executions.c.scheduler_id == bindparam("scheduler_id")
)
_OLDEST = (
    select(executions.c.id)
    .where(_SUCCEEDED, COUNTS, executions.c.scheduler_id == bindparam("scheduler_id"))
    .order_by(executions.c.id)
    .limit(bindparam("surplus"))
)
_DELETE = delete(executions).where(THESE)


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
        _delete_surplus_of_classes(database, now),
    ):
        deleted += step
        between()
    for _ in chain(
        forget_gates(database, now),
        forget_replays(database, limits["others"]),
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
        for piece in _pieces(_surplus(database, {**asked, "most": most})):
            yield _delete(database, _OLDEST, {**asked, "surplus": piece})


def _delete_surplus_of_classes(database: Database, now: datetime) -> Iterator[int]:
    found = surplus_of_classes(database, lately=now - LATELY, booted=now - LONGEST_AGO)
    for which, asked, count in found:
        for piece in _pieces(count):
            yield _delete(database, which, {**asked, "surplus": piece})


def _surplus(database: Database, asked: dict[str, Any]) -> int:
    with database.read("counting what is kept") as connection:
        surplus: int = connection.execute(_SURPLUS, asked).scalar_one()
    return max(surplus, 0)


def _pieces(surplus: int) -> list[int]:
    whole, rest = divmod(surplus, STEP)
    return [STEP] * whole + [rest] * (rest > 0)


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
