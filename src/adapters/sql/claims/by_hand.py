"""Claiming a run that no plan asked for: a person did, or another program's message."""

from typing import Any

import msgspec
from sqlalchemy import Connection, Select, bindparam, select

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle import claims
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule
from cronhare.domain.schedules.standalone import is_standalone

from ..dialect import Dialect, TransactionRolledBack
from ..rows.executions import EXECUTION, executions_of
from ..rows.schedules import READ, schedule_of
from ..schema.tables import executions, plans, schedulers
from .plans import find_unfinished, keep_topics

_BY_KEY = EXECUTION.where(
    executions.c.scheduler_id == bindparam("scheduler_id"),
    executions.c.execution_key == bindparam("key"),
)
_SCHEDULE: Select[Any] = select(*READ).where(schedulers.c.id == bindparam("scheduler_id"))
#: What others lock that claim runs of a schedule. Whoever plans it has its plan before its row.
_LOCKS = [
    select(column).where(column == bindparam("scheduler_id")).with_for_update()
    for column in (plans.c.scheduler_id, schedulers.c.id)
]


def find_by_key(connection: Connection, scheduler_id: int, key: str) -> Execution | None:
    """Find an execution by its unique key."""
    if not 0 < scheduler_id <= LARGEST_ID:
        return None
    rows = connection.execute(_BY_KEY, {"scheduler_id": scheduler_id, "key": key})
    return next(iter(executions_of(connection, rows)), None)


def claim_by_hand(
    connection: Connection,
    dialect: Dialect,
    scheduler_id: int,
    *,
    key: str,
    alone: bool = False,
    **asked: Any,  # noqa: ANN401 - see the domain's
) -> Execution:
    """Claim a run that no plan asked for. Its key is known to be free.

    What stays alive has to be *alone*, where that is asked for.

    Raises:
        NotToBeRun: see there.
    """
    schedule = _schedule(connection, scheduler_id)
    run = claims.claim_by_hand(schedule, scheduler_id, key=key, **asked)
    if alone and is_standalone(run.queue):
        for lock in _LOCKS:
            connection.execute(lock, {"scheduler_id": scheduler_id})
        if (meanwhile := find_by_key(connection, scheduler_id, key)) is not None:
            return meanwhile
        assert isinstance(schedule, Schedule), "a stand-in has no queue of its own"
        claims.refuse_beside(find_unfinished(connection, [schedule]).get(scheduler_id))
    [id_] = dialect.insert_executions(connection, [run])
    if not id_:
        raise TransactionRolledBack(f"{key} was claimed by somebody else in this very moment")
    claimed = msgspec.structs.replace(run, id=id_)
    keep_topics(connection, dialect, [claimed])
    return claimed


def _schedule(connection: Connection, scheduler_id: int) -> Schedule | BrokenSchedule | None:
    known = 0 < scheduler_id <= LARGEST_ID
    row = connection.execute(_SCHEDULE, {"scheduler_id": scheduler_id}).first() if known else None
    return None if row is None else schedule_of(row)
