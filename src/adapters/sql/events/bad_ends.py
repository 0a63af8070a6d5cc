"""Bad ends: the archive, which is written with the end itself, is where their events wait."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, and_, bindparam, or_, select, update

from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.events import (
    UNTOLD,
    OutboxRow,
    OutboxState,
    Place,
    expected_after,
    without_repeats,
)
from cronhare.domain.schedules.task import TaskRef

from ..mapping.archive_rows import read_archived
from ..schema.tables import failed_tasks, outbox
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable
from .rows import insert_new

_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_DUE: Final = (
    select(failed_tasks)
    .where(failed_tasks.c.event_at <= bindparam("now", type_=UtcDateTime))
    .order_by(failed_tasks.c.event_at, failed_tasks.c.id)
    .limit(bindparam("limit"))
)
_STILL_DUE: Final = (
    select(failed_tasks.c.id)
    .where(
        failed_tasks.c.id.in_(_IDS), failed_tasks.c.event_at <= bindparam("now", type_=UtcDateTime)
    )
    .with_for_update(skip_locked=True)
)
_NEXT: Final = (
    update(failed_tasks)
    .where(failed_tasks.c.id.in_(_IDS))
    .values(event_at=bindparam("until", type_=UtcDateTime))
)
_EXPECTED: Final = (
    select(outbox.c.id, outbox.c.event_key, outbox.c.scheduler_id, outbox.c.target)
    .where(
        outbox.c.state == OutboxState.EXPECTED.value,
        outbox.c.scheduler_id.in_(bindparam("schedules", expanding=True)),
    )
    .with_for_update()
)
_EXPECT_LATER: Final = (
    update(outbox)
    .where(
        outbox.c.id == bindparam("this"),
        # One that was left to wait is announced after those that came later.
        outbox.c.occurred_at <= bindparam("at", type_=UtcDateTime),
    )
    .values(
        event_key=bindparam("key"),
        occurred_at=bindparam("at", type_=UtcDateTime),
        execution_id=bindparam("execution"),
    )
)
_TOLD: Final = select(outbox.c.event_key, outbox.c.target).where(
    outbox.c.event_key.in_(bindparam("keys", expanding=True)),
    outbox.c.state.not_in(sorted(UNTOLD)),
)


class BadEnds(StorePart):
    """The part of `EventStorePort` that is about bad ends."""

    @repeatable
    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        statement = _DUE.where(or_(failed_tasks.c.source == source, *_of_numbers(refs)))
        with self._database.read("looking for events") as connection:
            rows = connection.execute(statement, {"now": now, "limit": limit})
            return read_archived(rows)

    @repeatable
    def announce(
        self,
        rows: Mapping[int, Sequence[OutboxRow]],
        *,
        now: datetime,
        until: datetime | None,
        once: Collection[str] = (),
    ) -> int:
        with self._database.write("announcing events") as connection:
            asked = {"ids": sorted(rows), "now": now}
            taken = list(connection.scalars(_STILL_DUE, asked))
            if not taken:
                return 0
            connection.execute(_NEXT, {"ids": taken, "until": until})
            wanted = [each for id_ in taken for each in rows[id_]]
            insert_new(connection, _without_known(connection, wanted, once))
            return len(taken)


def _of_numbers(refs: Collection[TaskRef]) -> list[Any]:
    """Ask for rows without a source whose task has one of these numbers."""
    by_type = groupby(sorted(refs), key=attrgetter("type"))
    return [
        and_(
            failed_tasks.c.source.is_(None),
            failed_tasks.c.task_type == type_,
            failed_tasks.c.task_id.in_([ref.id for ref in group]),
        )
        for type_, group in by_type
    ]


def _without_known(
    connection: Connection, wanted: Sequence[OutboxRow], once: Collection[str]
) -> Sequence[OutboxRow]:
    """Leave out what targets told *once* know, and recoveries that are expected already.

    These are expected after the later bad end from now on.
    """
    hoped = [one for one in wanted if one.state == OutboxState.EXPECTED]
    if not hoped:
        return wanted
    asked = {"schedules": sorted({one.scheduler_id for one in hoped})}
    there, after = dict[Place, int](), dict[Place, str]()
    for row in connection.execute(_EXPECTED, asked):
        there[row.scheduler_id, row.target] = row.id
        if row.target in once:
            after[row.scheduler_id, row.target] = expected_after(row.event_key)
    keys = sorted({*after.values()})
    told = set(map(tuple, connection.execute(_TOLD, {"keys": keys}))) if keys else set()
    known = {place: key for place, key in after.items() if (key, place[1]) in told}
    wanted = without_repeats(wanted, once=once, known=known)
    latest = {one.place: one for one in wanted if one.state == OutboxState.EXPECTED}
    for place, one in latest.items():
        if place in there:
            changed = {"this": there[place], "key": one.event_key}
            changed |= {"at": one.occurred_at, "execution": one.execution_id}
            connection.execute(_EXPECT_LATER, changed)
    new = [one for place, one in latest.items() if place not in there]
    return [*(one for one in wanted if one.state != OutboxState.EXPECTED), *new]
