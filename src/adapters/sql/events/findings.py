"""What happened of which targets are told or pinged, found in the archive and among executions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa

from cronhare.domain.events.events import MAY_BE_LATE
from cronhare.domain.events.outbox import ENDS, LONGEST_TAIL, RunEnd
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.claims import REPLAYED
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
from ..tables.types import OwnTable, moment_of
from ..writing import read_archived

#: Schedules, and runs, that one statement asks for; and runs with output, each of up to 256 KiB.
_AT_ONCE: Final = 500
_OUTPUTS_AT_ONCE: Final = 50

_RUN: Final = executions.c
_FAILURE: Final = failed_tasks.c

_NAMED: Final = sa.select(schedulers.c.id, schedulers.c.name).where(
    schedulers.c.source == sa.bindparam("source"),
    schedulers.c.name.in_(sa.bindparam("names", expanding=True)),
)
_AFTER: Final[sa.BindParameter[Any]] = sa.bindparam("after")
_SINCE: Final = moment_of("since")
#: An index has what has not ended, or not long ago. Nothing ends before it was claimed.
_OPEN_SINCE: Final = sa.or_(_RUN.finished_at.is_(None), _RUN.finished_at >= _SINCE)


def _paged(found: sa.Select[Any]) -> sa.Select[Any]:
    its = found.where(_RUN.scheduler_id.in_(IDS), _RUN.id > _AFTER)
    return its.order_by(_RUN.id).limit(sa.bindparam("limit"))


_ARRIVALS: Final = _paged(
    EXECUTION.where(
        _OPEN_SINCE,
        _RUN.executed_at >= _SINCE,
        _RUN.state != State.SKIPPED.value,
        is_of_due_instant(_RUN.execution_key),
        ~IS_STANDALONE,
    )
)
_SKIPS: Final = _paged(
    EXECUTION.where(_RUN.finished_at >= _SINCE, _RUN.state == State.SKIPPED.value)
)
#: Most runs begin in time: those are looked at, and the others read.
_LATE: Final = _paged(
    sa.select(_RUN.id, _RUN.due_at, _RUN.started_at).where(
        _OPEN_SINCE,
        _RUN.due_at < moment_of("due"),
        in_states(MAY_BE_LATE),
        # A replay waits anew for what was due long ago.
        sa.or_(_RUN.started_at.is_not(None), _RUN.attempt == 1),
        _RUN.execution_key.not_like(f"{BACKFILL}%"),  # late on purpose
    )
)
#: Reads one that was due.
_LATENESS: Final = OwnTable(executions, due_at=datetime)
#: What began again long after it was due: its first attempt is over.
_REPLAYED: Final = sa.select(_FAILURE.execution_id).where(
    _FAILURE.execution_id.in_(IDS), _FAILURE.resolution == REPLAYED
)

_OF_THESE: Final = sa.select(_RUN.id).where(_RUN.scheduler_id.in_(IDS))
#: Each half is a range of the index (scheduler_id, finished_at), however long the history is.
_LATELY: Final = sa.union_all(
    _OF_THESE.where(_RUN.finished_at.is_(None)), _OF_THESE.where(_RUN.finished_at >= _SINCE)
).subquery()
#: No look-up by the key of all history.
_ID: Final = _RUN.id + 0

_BEGUN_OR_ENDED: Final = (
    EXECUTION.where(
        _RUN.id.in_(sa.select(_LATELY.c.id)), _AFTER < _ID, in_states({State.RUNNING, *ENDS})
    )
    .order_by(_ID)
    .limit(sa.bindparam("limit"))
)
_STREAMS: Final = ("stdout_head", "stdout_tail", "stderr_head", "stderr_tail")
_ENDS: Final[sa.Select[Any]] = (
    sa.select(
        _RUN.id, attempts.c.exit_code, attempts.c.node, *(outputs.c[name] for name in _STREAMS)
    )
    .select_from(executions.join(attempts, IS_LAST_ATTEMPT).outerjoin(outputs, IS_LAST_OUTPUT))
    .where(_RUN.id.in_(IDS))
)


class Findings(StorePart):
    """The part of `EventStorePort` that finds what nobody wrote an event for."""

    @repeatable
    def bad_ends(
        self, *, source: str, refs: Collection[TaskRef], now: datetime, limit: int
    ) -> Sequence[Archived]:
        of_no_file = (
            sa.and_(
                _FAILURE.source.is_(None),
                _FAILURE.task_type == type_,
                _FAILURE.task_id.in_([ref.id for ref in group]),
            )
            for type_, group in groupby(sorted(refs), key=attrgetter("type"))
        )
        found = (
            sa.select(failed_tasks)
            .where(_FAILURE.event_at <= now, sa.or_(_FAILURE.source == source, *of_no_file))
            .order_by(_FAILURE.event_at, _FAILURE.id)
            .limit(limit)
        )
        with self._database.read("looking for events") as connection:
            return read_archived(connection.execute(found))

    @repeatable
    def first_success(
        self, scheduler_id: int, *, after: datetime, by: datetime
    ) -> Execution | None:
        found = EXECUTION.where(
            _RUN.scheduler_id == scheduler_id,
            _RUN.finished_at > after,
            _RUN.finished_at <= by,
            _RUN.state == State.SUCCEEDED.value,
        )
        first = found.order_by(_RUN.finished_at, _RUN.id).limit(1)
        with self._database.read("looking for recoveries") as connection:
            return next(iter(executions_of(connection, connection.execute(first))), None)

    @repeatable
    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        with self._database.read("looking for schedules") as connection:
            return {
                row.id: row.name
                for part in batches(sorted(names), _AT_ONCE)
                for row in connection.execute(_NAMED, {"source": source, "names": part})
            }

    def arrivals(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        return self._page(_ARRIVALS, scheduler_ids, since, after, limit)

    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        return self._page(_SKIPS, scheduler_ids, since, after, limit)

    def begun_or_ended(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        return self._page(_BEGUN_OR_ENDED, scheduler_ids, since, after, limit)

    @repeatable
    def _page(
        self,
        statement: sa.Select[Any],
        scheduler_ids: Collection[int],
        since: datetime,
        after: int,
        limit: int,
    ) -> Page:
        asked = {"since": since, "after": after, "limit": limit}
        with self._database.read("looking for events") as connection:
            rows = _asked_in_parts(connection, statement, scheduler_ids, asked)
            return _page(rows, executions_of(connection, rows), limit)

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
    def run_ends(self, execution_ids: Collection[int]) -> Mapping[int, RunEnd]:
        with self._database.read("reading how runs ended") as connection:
            return {
                row.id: RunEnd(
                    exit_code=row.exit_code,
                    stderr=_tail(row.stderr_tail or row.stderr_head),
                    stdout=_tail(row.stdout_tail or row.stdout_head),
                    node=row.node,
                )
                for part in batches(sorted(execution_ids), _OUTPUTS_AT_ONCE)
                for row in connection.execute(_ENDS, {"ids": part})
            }


def _asked_in_parts(
    connection: sa.Connection,
    statement: sa.Select[Any],
    scheduler_ids: Collection[int],
    asked: Mapping[str, Any],
) -> list[sa.Row[Any]]:
    """Ask for some schedules at a time: each part has the first ids of its own."""
    found = list[sa.Row[Any]]()
    for part in batches(sorted(scheduler_ids), _AT_ONCE):
        found += connection.execute(statement, {**asked, "ids": part})
    return sorted(found, key=attrgetter("id"))[: asked["limit"]]


def _page(rows: Sequence[sa.Row[Any]], found: Iterable[Execution], limit: int) -> Page:
    sound = [one for one in found if one.problem is None]
    return Page(found=sound, next=rows[-1].id if len(rows) == limit else None)


def _tail(text: str | None) -> str:
    return text[-LONGEST_TAIL:] if text and not text.isspace() else ""
