"""What happened of which targets are told or pinged, found in the archive and among executions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    or_,
    select,
    union_all,
)

from cronhare.domain.events.events import MAY_BE_LATE
from cronhare.domain.events.outbox import ENDS, LONGEST_TAIL, RunEnd
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.replay import REPLAYED
from cronhare.domain.schedules.keys import BACKFILL
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.events import Page

from ..database import StorePart, repeatable
from ..tables.executions import (
    BY_IDS,
    EXECUTION,
    IS_LAST_ATTEMPT,
    IS_LAST_OUTPUT,
    IS_STANDALONE,
    batches,
    executions_of,
    find_executions,
    in_states,
    is_of_due_instant,
)
from ..tables.tables import IDS, attempts, executions, failed_tasks, outputs, schedulers
from ..tables.types import OwnTable, UtcDateTime
from ..writing import read_archived

#: Schedules, and runs, that one statement asks for; and runs with output, each of up to 256 KiB.
_AT_ONCE: Final = 500
_OUTPUTS_AT_ONCE: Final = 50

_NAMED: Final = select(schedulers.c.id, schedulers.c.name).where(
    schedulers.c.source == bindparam("source"),
    schedulers.c.name.in_(bindparam("names", expanding=True)),
)
_AFTER: Final[BindParameter[Any]] = bindparam("after")
_SINCE: Final = bindparam("since", type_=UtcDateTime)
#: An index has what has not ended, or not long ago. Nothing ends before it was claimed.
_OPEN_SINCE: Final = or_(executions.c.finished_at.is_(None), executions.c.finished_at >= _SINCE)


def _paged(found: Select[Any]) -> Select[Any]:
    """Find what is of schedules `ids`, by rising ids beyond `after`, and at most `limit`."""
    its = executions.c.scheduler_id.in_(IDS)
    found = found.where(its, executions.c.id > _AFTER)
    return found.order_by(executions.c.id).limit(bindparam("limit"))


_ARRIVALS: Final = _paged(
    EXECUTION.where(
        _OPEN_SINCE,
        executions.c.executed_at >= _SINCE,
        executions.c.state != State.SKIPPED.value,
        is_of_due_instant(executions.c.execution_key),
        ~IS_STANDALONE,
    )
)
_SKIPS: Final = _paged(
    EXECUTION.where(executions.c.finished_at >= _SINCE, executions.c.state == State.SKIPPED.value)
)
#: Most runs begin in time: those are looked at, and the others read.
_LATE: Final = _paged(
    select(executions.c.id, executions.c.due_at, executions.c.started_at).where(
        _OPEN_SINCE,
        executions.c.due_at < bindparam("due", type_=UtcDateTime),
        in_states(MAY_BE_LATE),
        # A replay waits anew for what was due long ago.
        or_(executions.c.started_at.is_not(None), executions.c.attempt == 1),
        executions.c.execution_key.not_like(f"{BACKFILL}%"),  # late on purpose
    )
)
#: Reads one that was due.
_LATENESS: Final = OwnTable(executions, due_at=datetime)
#: What began again long after it was due: its first attempt is over.
_REPLAYED: Final = select(failed_tasks.c.execution_id).where(
    failed_tasks.c.execution_id.in_(IDS), failed_tasks.c.resolution == REPLAYED
)

#: The archive, which is written with the end itself, is where the events of bad ends wait.
_BAD_ENDS: Final = (
    select(failed_tasks)
    .where(failed_tasks.c.event_at <= bindparam("now", type_=UtcDateTime))
    .order_by(failed_tasks.c.event_at, failed_tasks.c.id)
    .limit(bindparam("limit"))
)
_SUCCESS: Final = (
    EXECUTION.where(
        executions.c.scheduler_id == bindparam("scheduler"),
        executions.c.finished_at > bindparam("after", type_=UtcDateTime),
        executions.c.finished_at <= bindparam("by", type_=UtcDateTime),
        executions.c.state == State.SUCCEEDED.value,
    )
    .order_by(executions.c.finished_at, executions.c.id)
    .limit(1)
)

_OF_THESE: Final = select(executions.c.id).where(executions.c.scheduler_id.in_(IDS))
#: Each half is a range of the index (scheduler_id, finished_at), however long the history is.
_LATELY: Final = union_all(
    _OF_THESE.where(executions.c.finished_at.is_(None)),
    _OF_THESE.where(executions.c.finished_at >= _SINCE),
).subquery()
#: No look-up by the key of all history.
_ID: Final = executions.c.id + 0

_BEGUN_OR_ENDED: Final = (
    EXECUTION.where(
        executions.c.id.in_(select(_LATELY.c.id)),
        _AFTER < _ID,
        in_states({State.RUNNING, *ENDS}),
    )
    .order_by(_ID)
    .limit(bindparam("limit"))
)
_STREAMS: Final = ("stdout_head", "stdout_tail", "stderr_head", "stderr_tail")
_ENDS: Final[Select[Any]] = (
    select(
        executions.c.id,
        attempts.c.exit_code,
        attempts.c.node,
        *(outputs.c[name] for name in _STREAMS),
    )
    .select_from(executions.join(attempts, IS_LAST_ATTEMPT).outerjoin(outputs, IS_LAST_OUTPUT))
    .where(executions.c.id.in_(IDS))
)


class Findings(StorePart):
    """The part of `EventStorePort` that finds what nobody wrote an event for."""

    @repeatable
    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        statement = _BAD_ENDS.where(or_(failed_tasks.c.source == source, *_of_numbers(refs)))
        with self._database.read("looking for events") as connection:
            return read_archived(connection.execute(statement, {"now": now, "limit": limit}))

    @repeatable
    def first_success(
        self, scheduler_id: int, *, after: datetime, by: datetime
    ) -> Execution | None:
        with self._database.read("looking for recoveries") as connection:
            asked = {"scheduler": scheduler_id, "after": after, "by": by}
            rows = connection.execute(_SUCCESS, asked)
            return next(iter(executions_of(connection, rows)), None)

    @repeatable
    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        found = dict[int, str]()
        with self._database.read("looking for schedules") as connection:
            for part in batches(sorted(names), _AT_ONCE):
                asked = {"source": source, "names": part}
                found.update((row.id, row.name) for row in connection.execute(_NAMED, asked))
        return found

    @repeatable
    def arrivals(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        return self._page(_ARRIVALS, scheduler_ids, since, after, limit)

    @repeatable
    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        return self._page(_SKIPS, scheduler_ids, since, after, limit)

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
        found = dict[int, Execution]()
        with self._database.read("looking for events") as connection:
            rows = _asked_in_parts(connection, _LATE, scheduler_ids, asked)
            read = _LATENESS.readable(rows)
            late = [row.id for row in read if (row.started_at or now) - row.due_at > by]
            for part in batches(late, _AT_ONCE):
                replayed = {*connection.scalars(_REPLAYED, {"ids": part})}
                new = [id_ for id_ in part if id_ not in replayed]
                found |= find_executions(connection, BY_IDS, new)
        return _page(rows, [found[id_] for id_ in sorted(found)], limit)

    @repeatable
    def begun_or_ended(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        return self._page(_BEGUN_OR_ENDED, scheduler_ids, since, after, limit)

    @repeatable
    def run_ends(self, execution_ids: Collection[int]) -> Mapping[int, RunEnd]:
        with self._database.read("reading how runs ended") as connection:
            return {
                row.id: _end(row)
                for part in batches(sorted(execution_ids), _OUTPUTS_AT_ONCE)
                for row in connection.execute(_ENDS, {"ids": part})
            }

    def _page(
        self,
        statement: Select[Any],
        scheduler_ids: Collection[int],
        since: datetime,
        after: int,
        limit: int,
    ) -> Page:
        asked = {"since": since, "after": after, "limit": limit}
        with self._database.read("looking for events") as connection:
            rows = _asked_in_parts(connection, statement, scheduler_ids, asked)
            return _page(rows, executions_of(connection, rows), limit)


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


def _asked_in_parts(
    connection: Connection,
    statement: Select[Any],
    scheduler_ids: Collection[int],
    asked: Mapping[str, Any],
) -> list[Row[Any]]:
    """Ask for some schedules at a time: each part has the first ids of its own."""
    found = list[Row[Any]]()
    for part in batches(sorted(scheduler_ids), _AT_ONCE):
        found += connection.execute(statement, {**asked, "ids": part})
    return sorted(found, key=attrgetter("id"))[: asked["limit"]]


def _page(rows: Sequence[Row[Any]], found: Iterable[Execution], limit: int) -> Page:
    sound = [one for one in found if one.problem is None]
    return Page(found=sound, next=rows[-1].id if len(rows) == limit else None)


def _end(row: Row[Any]) -> RunEnd:
    stderr, stdout = row.stderr_tail or row.stderr_head, row.stdout_tail or row.stdout_head
    return RunEnd(
        exit_code=row.exit_code, stderr=_tail(stderr), stdout=_tail(stdout), node=row.node
    )


def _tail(text: str | None) -> str:
    return text[-LONGEST_TAIL:] if text and not text.isspace() else ""
