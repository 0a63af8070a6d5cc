"""Skips and late starts, found among the executions of the schedules of which somebody is told."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BindParameter, Select, bindparam, or_, select

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.events import MAY_BE_LATE
from cronhare.domain.schedules.keys import BACKFILL

from ..mapping.execution_rows import EXECUTION, executions_of
from ..schema.tables import executions, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import StorePart, repeatable

#: Schedules that one statement asks for.
_AT_ONCE: Final = 500

_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_NAMED: Final = select(schedulers.c.id, schedulers.c.name).where(
    schedulers.c.source == bindparam("source"),
    schedulers.c.name.in_(bindparam("names", expanding=True)),
)
_SINCE: Final = bindparam("since", type_=UtcDateTime)
_SKIPS: Final = (
    EXECUTION.where(
        executions.c.scheduler_id.in_(_IDS),
        executions.c.finished_at >= _SINCE,
        executions.c.state == State.SKIPPED.value,
    )
    .order_by(executions.c.finished_at, executions.c.id)
    .limit(bindparam("limit"))
)
_LATE: Final = (
    EXECUTION.where(
        executions.c.scheduler_id.in_(_IDS),
        or_(executions.c.finished_at.is_(None), executions.c.finished_at >= _SINCE),
        executions.c.due_at < bindparam("due", type_=UtcDateTime),
        executions.c.state.in_(sorted(MAY_BE_LATE)),
        # A replay waits anew for what was due long ago.
        or_(executions.c.started_at.is_not(None), executions.c.attempt == 1),
        executions.c.execution_key.not_like(f"{BACKFILL}%"),  # late on purpose
    )
    .order_by(executions.c.id)
    .limit(bindparam("limit"))
)


class Findings(StorePart):
    """The part of `EventStorePort` that finds what nobody wrote an event for."""

    @repeatable
    def schedule_ids(self, names: Collection[str], *, source: str) -> Mapping[int, str]:
        """See `EventStorePort.schedule_ids`."""
        asked, found = sorted(names), dict[int, str]()
        with self._database.read("looking for schedules") as connection:
            for at in range(0, len(asked), _AT_ONCE):
                part = {"source": source, "names": asked[at : at + _AT_ONCE]}
                found.update((row.id, row.name) for row in connection.execute(_NAMED, part))
        return found

    def skips(
        self, scheduler_ids: Collection[int], *, since: datetime, limit: int
    ) -> Sequence[Execution]:
        """See `EventStorePort.skips`."""
        return self._found(_SKIPS, scheduler_ids, {"since": since, "limit": limit})

    def begun_late(
        self, scheduler_ids: Collection[int], *, due_before: datetime, since: datetime, limit: int
    ) -> Sequence[Execution]:
        """See `EventStorePort.begun_late`."""
        asked = {"due": due_before, "since": since, "limit": limit}
        return self._found(_LATE, scheduler_ids, asked)

    @repeatable
    def _found(
        self,
        statement: Select[Any],
        scheduler_ids: Collection[int],
        asked: Mapping[str, Any],
    ) -> Sequence[Execution]:
        ids, found = sorted(scheduler_ids), list[Execution]()
        with self._database.read("looking for events") as connection:
            for at in range(0, len(ids), _AT_ONCE):
                rows = connection.execute(statement, {**asked, "ids": ids[at : at + _AT_ONCE]})
                found += executions_of(connection, rows)
        return [one for one in found if one.problem is None]
