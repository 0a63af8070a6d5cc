"""Runs that should have begun, as `cronhare doctor` sees them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from cronhare.domain.diagnosis.quarantine import Quarantined
from cronhare.domain.diagnosis.waiting import OVERDUE_AFTER, Waiting
from cronhare.domain.execution import UNFINISHED, State
from cronhare.domain.retries.retry import AWAITS_TASK

from ..schema.tables import executions, failed_tasks
from ..schema.types import read_moment
from .scheduler_activity import NEWEST

#: Nothing was due before. This leaves out what is no time, in a broken row.
_EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: A replay keeps the time of the first claim; its own is in the archive alone.
_REPLAYED_AT: Final = (
    select(func.max(failed_tasks.c.resolved_at))
    .where(failed_tasks.c.execution_id == executions.c.id)
    .scalar_subquery()
)
_CLAIMED_AT: Final = case(
    (executions.c.attempt > 1, func.coalesce(_REPLAYED_AT, executions.c.executed_at)),
    else_=executions.c.executed_at,
)


def _from_its_time(own: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """Give a time, or when the attempt may begin if that is later, as after a replay."""
    begins = executions.c.next_attempt_at
    return case((and_(begins.is_not(None), begins > own), begins), else_=own)


#: Since when a run waits, by its state.
_SINCE: Final = {
    State.CLAIMED: _from_its_time(_CLAIMED_AT),
    State.PUBLISHED: _from_its_time(executions.c.published_at),
    State.RETRYING: executions.c.next_attempt_at,
}


def outstanding(connection: Connection, now: datetime) -> Iterator[Waiting]:
    """Count in each queue what has waited for longer than `OVERDUE_AFTER`."""
    running = _running(connection)
    for state, since in _SINCE.items():
        found = (
            select(executions.c.queue, func.count(), func.min(since))
            .where(executions.c.state == state, since >= _EVER, since < now - OVERDUE_AFTER)
            .group_by(executions.c.queue)
            .order_by(executions.c.queue)
        )
        for queue, runs, first in connection.execute(found):
            yield Waiting(
                queue=str(queue),
                runs=runs,
                since=read_moment(first) or now - OVERDUE_AFTER,
                sent=state is not State.CLAIMED,
                running=running.get(str(queue), 0),
            )


def queues_in_use(connection: Connection) -> frozenset[str]:
    """Name the queues of the executions that have not ended."""
    states = [state.value for state in UNFINISHED]
    found = select(executions.c.queue).where(executions.c.state.in_(states)).distinct()
    return frozenset(map(str, connection.scalars(found)))


def quarantined(connection: Connection) -> Quarantined:
    """Count the quarantined runs that await a person, and all among the archive's newest."""
    is_one = failed_tasks.c.kind == State.QUARANTINED.value
    waiting = select(func.count()).where(failed_tasks.c.resolution.is_(None), is_one)
    newest = select(failed_tasks.c.kind).order_by(failed_tasks.c.id.desc()).limit(NEWEST).subquery()
    of_late = select(func.count()).where(newest.c.kind == State.QUARANTINED.value)
    return Quarantined(
        unresolved=connection.scalar(waiting) or 0, of_late=connection.scalar(of_late) or 0
    )


def unresolved_failures(connection: Connection) -> int:
    """Count the failures that await a person."""
    is_one = failed_tasks.c.kind == State.FAILED.value
    waiting = select(func.count()).where(failed_tasks.c.resolution.is_(None), is_one)
    return connection.scalar(waiting) or 0


def awaited(connection: Connection) -> int:
    """Count the runs that wait for a worker that has their task."""
    is_one = executions.c.last_error.startswith(AWAITS_TASK, autoescape=True)
    waiting = select(func.count()).where(executions.c.state == State.RETRYING.value, is_one)
    return connection.scalar(waiting) or 0


def _running(connection: Connection) -> dict[str, int]:
    count = select(executions.c.queue, func.count()).where(executions.c.state == State.RUNNING)
    found = connection.execute(count.group_by(executions.c.queue))
    return {str(queue): int(runs) for queue, runs in found}
