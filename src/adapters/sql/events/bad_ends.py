"""Bad ends: the archive, which is written with the end itself, is where their events wait."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, and_, bindparam, or_, select, update

from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.events import OutboxRow, OutboxState
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
    select(outbox.c.id, outbox.c.scheduler_id, outbox.c.target)
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
    .values(occurred_at=bindparam("at", type_=UtcDateTime), execution_id=bindparam("execution"))
)


class BadEnds(StorePart):
    """The part of `EventStorePort` that is about bad ends."""

    @repeatable
    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        """See `EventStorePort.bad_ends`."""
        statement = _DUE.where(or_(failed_tasks.c.source == source, *_of_numbers(refs)))
        with self._database.read("looking for events") as connection:
            rows = connection.execute(statement, {"now": now, "limit": limit})
            return list(map(read_archived, rows))

    @repeatable
    def announce(
        self, rows: Mapping[int, Sequence[OutboxRow]], *, now: datetime, until: datetime | None
    ) -> int:
        """See `EventStorePort.announce`."""
        with self._database.write("announcing events") as connection:
            asked = {"ids": sorted(rows), "now": now}
            taken = list(connection.scalars(_STILL_DUE, asked))
            if not taken:
                return 0
            connection.execute(_NEXT, {"ids": taken, "until": until})
            wanted = [each for id_ in taken for each in rows[id_]]
            insert_new(connection, _without_expected(connection, wanted))
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


def _without_expected(connection: Connection, wanted: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    """Leave out recoveries that are expected already: from now on after the later bad end."""
    hoped = [one for one in wanted if one.state == OutboxState.EXPECTED]
    if not hoped:
        return wanted
    asked = {"schedules": sorted({one.scheduler_id for one in hoped})}
    rows = connection.execute(_EXPECTED, asked)
    there = {(row.scheduler_id, row.target): row.id for row in rows}
    latest = {(one.scheduler_id, one.target): one for one in sorted(hoped, key=_AT)}
    for place, one in latest.items():
        if place in there:
            changed = {"this": there[place], "at": one.occurred_at, "execution": one.execution_id}
            connection.execute(_EXPECT_LATER, changed)
    new = [one for place, one in latest.items() if place not in there]
    return [*(one for one in wanted if one.state != OutboxState.EXPECTED), *new]


_AT = attrgetter("occurred_at")
