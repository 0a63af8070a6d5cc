"""How many runs of a task succeeded of late: counted only where a circuit breaker depends on it."""

from datetime import datetime
from typing import Any, Final

import attrs
from sqlalchemy import Connection, Select, and_, bindparam, func, select

from cronhare.domain.execution import Execution, State

from ..mapping.task_columns import NUMBER_COLUMNS
from ..schema.tables import executions, schedulers
from ..schema.types import UtcDateTime

_asked = schedulers.alias("asked")
_same_task = and_(
    *(
        schedulers.c[name].is_not_distinct_from(_asked.c[name])
        for name in (*NUMBER_COLUMNS, "topic")
    )
)
# Each schedule of the task is one look into the index (scheduler_id, finished_at). The state is
# compared in a way that no index of states serves: that would find all that ever succeeded.
_successes: Final = (
    select(executions.c.id)
    .select_from(_asked)
    .join(schedulers, _same_task)
    .join(executions, executions.c.scheduler_id == schedulers.c.id)
    .where(
        _asked.c.id == bindparam("scheduler_id"),
        executions.c.finished_at >= bindparam("since", type_=UtcDateTime),
        func.coalesce(executions.c.state, "") == State.SUCCEEDED.value,
        executions.c.task_type == bindparam("task_type"),
        executions.c.task_id == bindparam("task_id"),
    )
    .limit(bindparam("enough"))
    .subquery()
)
_COUNT: Final[Select[Any]] = select(func.count()).select_from(_successes)
_STATE: Final = select(executions.c.state).where(executions.c.id == bindparam("probe"))
_STATES: Final = frozenset(State)


@attrs.define
class SqlEvidence:
    """Satisfies `Evidence`, within one transaction."""

    _connection: Connection
    _states: dict[int, State | None] = attrs.field(init=False, factory=dict[int, State | None])

    def successes(self, of: Execution, *, since: datetime, enough: int) -> int:
        asked = {
            "scheduler_id": of.scheduler_id,
            "task_type": of.task.type,
            "task_id": of.task.id,
            "since": since,
            "enough": enough,
        }
        return self._connection.scalar(_COUNT, asked) or 0

    def state_of(self, execution_id: int) -> State | None:
        if execution_id not in self._states:
            found = self._connection.scalar(_STATE, {"probe": execution_id})
            self._states[execution_id] = State(found) if found in _STATES else None
        return self._states[execution_id]
