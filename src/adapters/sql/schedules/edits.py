"""Edits of the users' table row by row."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)

from cronhare.domain.execution import UNFINISHED
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports.schedules import KeptByRuns, Outdated, StoredSchedule

from ..database import Store, repeatable
from ..rows.executions import in_states, known_id
from ..rows.schedules import moment_or_long_ago, row_values
from ..schema.tables import AWAITS_A_PERSON, THESE, executions, schedulers
from .store import PLAN_OF, STORED, edited_at, stored

#: So many executions are deleted in one transaction.
STEP: Final = 1_000

_THIS: Final = schedulers.c.id == bindparam("scheduler_id")
_IN_FULL: Final = STORED.where(_THIS)
_EDITED_ROW: Final[Select[Any]] = (
    select(schedulers.c.id, schedulers.c.updated_at)
    .where(_THIS, schedulers.c.system_id.is_(None))
    .with_for_update()
)
_RUNS: Final = (
    select(func.count())
    .select_from(executions)
    .where(executions.c.scheduler_id == bindparam("scheduler_id"))
)
#: May still run: it has not ended, or its failure may be replayed.
_UNSETTLED: Final = _RUNS.where(or_(in_states(UNFINISHED), AWAITS_A_PERSON))
_SOME_RUNS: Final = (
    select(executions.c.id)
    .where(executions.c.scheduler_id == bindparam("scheduler_id"))
    .limit(bindparam("most"))
)
_DELETE_RUNS: Final = delete(executions).where(THESE)
_DELETE: Final = delete(schedulers).where(_THIS)


class SqlScheduleEdits(Store):
    """Satisfies `ScheduleEditsPort`. An edit is one transaction."""

    @repeatable
    def edit(
        self, scheduler_id: int, draft: ScheduleDraft, *, seen: datetime | None, now: datetime
    ) -> StoredSchedule | Outdated | None:
        with self._database.write(f"editing schedule {scheduler_id}") as connection:
            row = _locked(connection, scheduler_id)
            if row is None:
                return None
            if _is_other(row, seen):
                return Outdated(_read(connection, row.id))
            values = {name: new for name, new in row_values(draft).items() if name != "name"}
            changed = update(schedulers).where(schedulers.c.id == row.id)
            connection.execute(changed.values(**values, updated_at=edited_at(row, now)))
            return _read(connection, row.id)

    def delete(
        self, scheduler_id: int, *, seen: datetime | None, with_history: bool = False
    ) -> StoredSchedule | Outdated | KeptByRuns | None:
        while (answer := self._delete(scheduler_id, seen, with_history=with_history)) == STEP:
            pass
        assert not isinstance(answer, int)
        return answer

    @repeatable
    def _delete(
        self, scheduler_id: int, seen: datetime | None, *, with_history: bool
    ) -> StoredSchedule | Outdated | KeptByRuns | int | None:
        """Delete a row, or as many of its runs as one transaction should; answers their number."""
        with self._database.write(f"deleting schedule {scheduler_id}") as connection:
            row = _locked(connection, scheduler_id)
            if row is None:
                return None
            before = _read(connection, row.id)
            if _is_other(row, seen):
                return Outdated(before)
            asked = {"scheduler_id": row.id}
            if runs := connection.scalar(_UNSETTLED if with_history else _RUNS, asked):
                return KeptByRuns(runs)
            if with_history:
                ids = connection.scalars(_SOME_RUNS, asked | {"most": STEP}).all()
                if ids:
                    connection.execute(_DELETE_RUNS, {"ids": ids})
                if len(ids) == STEP:
                    return STEP
            connection.execute(_DELETE, asked)
            return before


def _locked(connection: Connection, scheduler_id: int) -> Row[Any] | None:
    scheduler_id = known_id(scheduler_id)
    # In this order, as schedulers have it: a plan is theirs while they claim.
    connection.execute(PLAN_OF, {"planned_id": scheduler_id}).all()
    return connection.execute(_EDITED_ROW, {"scheduler_id": scheduler_id}).first()


def _is_other(row: Row[Any], seen: datetime | None) -> bool:
    return seen is not None and moment_or_long_ago(row.updated_at) != seen


def _read(connection: Connection, scheduler_id: int) -> StoredSchedule:
    return stored(connection.execute(_IN_FULL, {"scheduler_id": scheduler_id}).one())
