"""Claiming a run that no plan asked for: somebody did, or somebody's message."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, bindparam, select

from cronhare.domain.execution import Execution
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.moves import as_told, claim
from cronhare.domain.schedule import BrokenSchedule, ByHand, Schedule
from cronhare.domain.task import TaskRef
from cronhare.ports.records import NotToBeRun

from .dialects.base import Dialect, Undone
from .drafts import READ, schedule_of
from .rows import EXECUTION, executions_of
from .tables import executions, schedulers

_BY_KEY = EXECUTION.where(
    executions.c.scheduler_id == bindparam("scheduler_id"),
    executions.c.execution_key == bindparam("key"),
)
_SCHEDULE: Select[Any] = select(*READ).where(schedulers.c.id == bindparam("scheduler_id"))


def find_by_key(connection: Connection, scheduler_id: int, key: str) -> Execution | None:
    """Find an execution by what is unique of it."""
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
    now: datetime,
    node: str,
    **changes: Any,  # noqa: ANN401 - fields of the execution
) -> Execution:
    """Claim a run with what its schedule says now, *changes* aside. The key is known to be free.

    Raises:
        NotToBeRun: what the schedule's row says, or that there is none; or that it is the system's
            own, which nobody else gives a task.
    """
    schedule = _schedule(connection, scheduler_id)
    if isinstance(schedule, BrokenSchedule):
        if "task" not in changes:
            raise NotToBeRun(f"schedule {schedule.name} cannot be run: {schedule.problem}")
        schedule = _stand_in(schedule)
    if "task" in changes and schedule.is_system:
        raise NotToBeRun(f"schedule {schedule.name} is the system's own")
    run = claim(schedule, key, due=now, now=now, node=node, begins=now)
    asked = msgspec.structs.replace(as_told(run, changes.pop("task", run.task)), **changes)
    [id_] = dialect.insert_executions(connection, [asked])
    if not id_:
        raise Undone(f"{key} was claimed by somebody else in this very moment")
    return msgspec.structs.replace(asked, id=id_)


def _schedule(connection: Connection, scheduler_id: int) -> Schedule | BrokenSchedule:
    known = 0 < scheduler_id <= LARGEST_ID
    row = connection.execute(_SCHEDULE, {"scheduler_id": scheduler_id}).first() if known else None
    if row is None:
        raise NotToBeRun(f"there is no schedule with the id {scheduler_id}")
    return schedule_of(row)


def _stand_in(broken: BrokenSchedule) -> Schedule:
    """Stand in for a broken row: a message that brings its own task and params can be run."""
    return Schedule(
        id=broken.id,
        name=broken.name,
        task=TaskRef("", 0),
        timing=ByHand(),
        changed_at=broken.changed_at,
        source=broken.source,
    )
