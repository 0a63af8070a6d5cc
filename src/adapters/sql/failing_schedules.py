"""Schedules that pause themselves after so many failures in a row: `pause_after`.

It is decided in the transaction that records a bad end for good, and costs nothing before. The plan
is locked, so that of failures that end together none is overlooked.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import attrs
from sqlalchemy import Connection, bindparam, insert, select, update

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.reading import Invalid
from cronhare.domain.schedules.conditions import read_conditions
from cronhare.domain.schedules.skips import paused_by_failures

from .dialect import Locked
from .tables.executions import in_states
from .tables.schedule_columns import LONG_AGO, decoded
from .tables.schedules import PAUSE_COLUMNS, read_pause
from .tables.tables import IDS, executions, failed_tasks, plans, schedulers
from .tables.types import moment_of
from .writing import archive_values

_RUN: Final = executions.c
_ARCHIVE: Final = insert(failed_tasks)

#: What has no such word is not parsed.
_PAUSING: Final = (
    select(schedulers.c.id, schedulers.c.conditions)
    .where(schedulers.c.id.in_(IDS), schedulers.c.conditions.like("%pause_after%"))
    .order_by(schedulers.c.id)
)
_PLAN: Final[Any] = select(*(plans.c[name] for name in PAUSE_COLUMNS)).where(
    plans.c.scheduler_id == bindparam("failing")
)
#: A range of the index (scheduler_id, finished_at), read from its end.
_ENDS: Final = (
    select(_RUN.state)
    .where(
        _RUN.scheduler_id == bindparam("scheduler"),
        _RUN.finished_at > moment_of("since"),
        in_states({State.SUCCEEDED, State.FAILED, State.QUARANTINED}),
    )
    .order_by(_RUN.finished_at.desc(), _RUN.id.desc())
    .limit(bindparam("most"))
    .with_hint(executions, "FORCE INDEX (ix_execution_open)", "mysql")
)
_PAUSE: Final = update(plans).where(plans.c.scheduler_id == bindparam("failing"))


def archive_all(
    connection: Connection, archived: Sequence[Archived], *, now: datetime
) -> Sequence[Archived]:
    """Write rows of the archive, whose executions have ended, and pause what fails again and again.

    The last row of a schedule that is paused with it says so.

    Raises:
        Locked: somebody holds the plan of such a schedule.
    """
    last = {one.scheduler_id: place for place, one in enumerate(archived)}
    written = list(archived)
    for scheduler_id, text in connection.execute(_PAUSING, {"ids": sorted(last)}).all():
        one = written[last[scheduler_id]]
        try:
            conditions = read_conditions(decoded(text))
        except (Invalid, ValueError):  # a row that is broken pauses nothing
            continue
        most = conditions and conditions.pause_after
        if most and _pause(connection, one, most, now):
            written[last[scheduler_id]] = attrs.evolve(one, paused_after=most)
    connection.execute(_ARCHIVE, list(map(archive_values, written)))
    return written


def _pause(connection: Connection, one: Archived, most: int, now: datetime) -> bool:
    """Pause a schedule if its last *most* ends are failures, since its last pause was over."""
    this = {"failing": one.scheduler_id}
    plan = connection.execute(_PLAN.with_for_update(skip_locked=True), this).first()
    if plan is None:
        if connection.execute(_PLAN, this).first() is not None:
            why = f"the plan of schedule {one.schedule_name} is locked"
            raise Locked(why, changed_nothing=True)
        return False
    before = read_pause(plan)
    if before is not None and before.is_on(now):
        return False
    since = (before and before.until) or LONG_AGO
    asked = {"scheduler": one.scheduler_id, "since": since, "most": most}
    failed = [state != State.SUCCEEDED for state in connection.scalars(_ENDS, asked)]
    pause = paused_by_failures(failed, most, error=one.failed_reason, now=now)
    if pause is not None:
        said = (pause.since, pause.until, pause.by, pause.reason)
        connection.execute(_PAUSE, {**dict(zip(PAUSE_COLUMNS, said, strict=True)), **this})
    return pause is not None
