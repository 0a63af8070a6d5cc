"""Arrivals, skips and late starts, found among the executions of which somebody is told."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Row, Select, bindparam, or_, select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.events import MAY_BE_LATE
from cronhare.domain.lifecycle.replay import REPLAYED
from cronhare.domain.schedules.keys import BACKFILL, DUE
from cronhare.domain.schedules.standalone import PREFIX as STANDALONE
from cronhare.ports.events import Page

from ..mapping.execution_rows import BY_IDS, EXECUTION, executions_of, find_executions
from ..schema.tables import executions, failed_tasks, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable

#: Schedules that one statement asks for.
_AT_ONCE: Final = 500

_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_NAMED: Final = select(schedulers.c.id, schedulers.c.name).where(
    schedulers.c.source == bindparam("source"),
    schedulers.c.name.in_(bindparam("names", expanding=True)),
)
_AFTER: Final[BindParameter[Any]] = bindparam("after")
_SINCE: Final = bindparam("since", type_=UtcDateTime)
#: An index has what has not ended, or not long ago. Nothing ends before it was claimed.
_OPEN_SINCE: Final = or_(executions.c.finished_at.is_(None), executions.c.finished_at >= _SINCE)
_ARRIVALS: Final = (
    EXECUTION.where(
        executions.c.scheduler_id.in_(_IDS),
        executions.c.id > _AFTER,
        _OPEN_SINCE,
        executions.c.executed_at >= _SINCE,
        executions.c.state != State.SKIPPED.value,
        or_(*(executions.c.execution_key.like(f"{begins}%") for begins in DUE)),
        ~executions.c.queue.startswith(STANDALONE, autoescape=True),
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
_SKIPS: Final = (
    EXECUTION.where(
        executions.c.scheduler_id.in_(_IDS),
        executions.c.id > _AFTER,
        executions.c.finished_at >= _SINCE,
        executions.c.state == State.SKIPPED.value,
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
#: Most runs begin in time: those are looked at, and the others read.
_LATE: Final = (
    select(executions.c.id, executions.c.due_at, executions.c.started_at)
    .where(
        executions.c.scheduler_id.in_(_IDS),
        executions.c.id > _AFTER,
        _OPEN_SINCE,
        executions.c.due_at < bindparam("due", type_=UtcDateTime),
        executions.c.state.in_(sorted(MAY_BE_LATE)),
        # A replay waits anew for what was due long ago.
        or_(executions.c.started_at.is_not(None), executions.c.attempt == 1),
        executions.c.execution_key.not_like(f"{BACKFILL}%"),  # late on purpose
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)
#: What began again long after it was due: its first attempt is over.
_REPLAYED: Final = select(failed_tasks.c.execution_id).where(
    failed_tasks.c.execution_id.in_(_IDS), failed_tasks.c.resolution == REPLAYED
)


class Findings(StorePart):
    """The part of `EventStorePort` that finds what nobody wrote an event for."""

    @repeatable
    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        asked, found = sorted(names), dict[int, str]()
        with self._database.read("looking for schedules") as connection:
            for at in range(0, len(asked), _AT_ONCE):
                part = {"source": source, "names": asked[at : at + _AT_ONCE]}
                found.update((row.id, row.name) for row in connection.execute(_NAMED, part))
        return found

    @repeatable
    def arrivals(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        asked = {"since": since, "after": after, "limit": limit}
        return self._page(_ARRIVALS, scheduler_ids, asked)

    @repeatable
    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        asked = {"since": since, "after": after, "limit": limit}
        return self._page(_SKIPS, scheduler_ids, asked)

    @repeatable
    def begun_late(
        self,
        scheduler_ids: Collection[int],
        *,
        by: timedelta,
        now: datetime,
        since: datetime,
        after: int,
        limit: int,
    ) -> Page:
        asked = {"due": now - by, "since": since, "after": after, "limit": limit}
        found = list[Execution]()
        with self._database.read("looking for events") as connection:
            rows = _asked_in_parts(connection, _LATE, scheduler_ids, asked)[:limit]
            late = [row.id for row in rows if _is_late(row, by, now)]
            for at in range(0, len(late), _AT_ONCE):
                part = late[at : at + _AT_ONCE]
                replayed = {*connection.scalars(_REPLAYED, {"ids": part})}
                new = [id_ for id_ in part if id_ not in replayed]
                read = find_executions(connection, BY_IDS, new)
                found += (read[id_] for id_ in sorted(read))
        return Page(found=_unbroken(found), next=_next(rows, limit))

    def _page(
        self, statement: Select[Any], scheduler_ids: Collection[int], asked: Mapping[str, Any]
    ) -> Page:
        limit: int = asked["limit"]
        with self._database.read("looking for events") as connection:
            rows = _asked_in_parts(connection, statement, scheduler_ids, asked)[:limit]
            found = executions_of(connection, rows)
        return Page(found=_unbroken(found), next=_next(rows, limit))


def _asked_in_parts(
    connection: Connection,
    statement: Select[Any],
    scheduler_ids: Collection[int],
    asked: Mapping[str, Any],
) -> list[Row[Any]]:
    """Ask for some schedules at a time: each part has the first ids of its own."""
    ids, found = sorted(scheduler_ids), list[Row[Any]]()
    for at in range(0, len(ids), _AT_ONCE):
        found += connection.execute(statement, {**asked, "ids": ids[at : at + _AT_ONCE]})
    return sorted(found, key=attrgetter("id"))


def _is_late(row: Row[Any], by: timedelta, now: datetime) -> bool:
    return bool((row.started_at or now) - row.due_at > by)


def _unbroken(found: Iterable[Execution]) -> Sequence[Execution]:
    return [one for one in found if one.problem is None]


def _next(rows: Sequence[Row[Any]], limit: int) -> int | None:
    return rows[-1].id if len(rows) == limit else None
