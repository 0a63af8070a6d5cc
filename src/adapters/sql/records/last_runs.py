"""The last run of each schedule, and what waits in each queue."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, select

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.ports.records import QueueLoad

from ..mapping.execution_rows import BY_IDS, batches, find_executions
from ..schema.tables import executions, schedulers

#: So many schedules are asked for in one statement.
_AT_ONCE: Final = 1_000

_OF_SCHEDULE: Final = select(executions.c.id).where(
    executions.c.scheduler_id == schedulers.c.id, executions.c.state != State.SKIPPED.value
)
#: Each is one lookup in the index (scheduler_id, finished_at), however long the history is.
_OPEN: Final = (
    _OF_SCHEDULE.where(executions.c.finished_at.is_(None))
    .order_by(executions.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_ENDED: Final = (
    _OF_SCHEDULE.where(executions.c.finished_at.is_not(None))
    .order_by(executions.c.finished_at.desc(), executions.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_NEWEST: Final[Select[Any]] = select(
    schedulers.c.id, func.coalesce(_OPEN, _ENDED).label("execution_id")
).where(schedulers.c.id.in_(bindparam("ids", expanding=True)))

_LOADS: Final[Select[Any]] = (
    select(executions.c.queue, executions.c.state, func.count(), func.min(executions.c.due_at))
    .where(executions.c.state.in_(sorted(state.value for state in UNFINISHED)))
    .group_by(executions.c.queue, executions.c.state)
)


def last_runs(connection: Connection, scheduler_ids: Collection[int]) -> Mapping[int, Execution]:
    found = dict[int, Execution]()
    for ids in batches(sorted(scheduler_ids), _AT_ONCE):
        newest = [row.execution_id for row in connection.execute(_NEWEST, {"ids": ids})]
        asked = [id_ for id_ in newest if id_ is not None]
        for execution in find_executions(connection, BY_IDS, asked).values():
            found[execution.scheduler_id] = execution
    return found


def loads(connection: Connection) -> Iterator[QueueLoad]:
    """See `RecordsPort.queues`; a broken row may have no queue, no state or no time."""
    states = {state.value: state for state in UNFINISHED}
    for queue, state, count, oldest in connection.execute(_LOADS):
        if isinstance(queue, str) and state in states:
            due = oldest if isinstance(oldest, datetime) else None
            yield QueueLoad(queue=queue, state=states[state], executions=count, oldest_due_at=due)
