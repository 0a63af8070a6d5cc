"""Waits that a clock has set which was ahead: found by their times, judged by the domain."""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Select, and_, bindparam, or_, select

from cronhare.domain.execution import STARTABLE, Execution
from cronhare.domain.lifecycle import leap_waits

from ..dialect import Dialect
from ..mapping.execution_rows import BY_IDS, batches, find_executions
from ..mapping.transition_columns import write_changes
from ..schema.tables import attempts, executions
from ..schema.types import UtcDateTime

_SOON: Final = bindparam("soon", type_=UtcDateTime)
_BEFORE: Final = and_(
    attempts.c.execution_id == executions.c.id, attempts.c.attempt == executions.c.attempt - 1
)
_NEW: Final = and_(
    executions.c.started_at.is_(None),
    or_(executions.c.attempt > 1, executions.c.executed_at > _SOON),
)
#: What may wait for as long as a clock was ahead; nearly always there is nothing. All of it is
#: looked at: what the domain lets wait on would hide the others from a look that has a limit.
DOUBTFUL_WAITS: Final = (
    select(executions.c.id)
    .select_from(executions.outerjoin(attempts, _BEFORE))
    .where(
        executions.c.state.in_(sorted(state.value for state in STARTABLE)),
        executions.c.check_at > _SOON,
        executions.c.next_attempt_at > _SOON,
        or_(_NEW, attempts.c.finished_at > _SOON),
    )
)
_ENDS: Final = select(attempts.c.execution_id, attempts.c.attempt, attempts.c.finished_at).where(
    attempts.c.execution_id.in_(bindparam("ids", expanding=True)),
    attempts.c.finished_at > _SOON,
)


def find_waits(
    connection: Connection, doubtful: Select[Any], *, soon: datetime, now: datetime, limit: int
) -> Sequence[int]:
    """Give the ids of so many at most that a clock keeps waiting; nothing is locked."""
    ids = connection.scalars(doubtful, {"soon": soon}).all()
    found = (
        before.id
        for part in batches(ids, limit)
        for before, _ in _judged(connection, part, soon=soon, now=now)
    )
    return [*islice(found, limit)]


def regain_waits(
    connection: Connection, dialect: Dialect, ids: Collection[int], *, soon: datetime, now: datetime
) -> list[int]:
    """Let those wait from now on that a clock keeps, and give their ids; they are locked."""
    changes = _judged(connection, ids, soon=soon, now=now)
    write_changes(connection, dialect, changes)
    return [before.id for before, _ in changes]


def _judged(
    connection: Connection, ids: Collection[int], *, soon: datetime, now: datetime
) -> Sequence[tuple[Execution, Execution]]:
    found = find_executions(connection, BY_IDS, ids)
    rows = connection.execute(_ENDS, {"ids": list(found) or [0], "soon": soon})
    ends = {(row.execution_id, row.attempt): row.finished_at for row in rows}
    judged = (
        (one, leap_waits.regain(one, ended_at=ends.get((one.id, one.attempt - 1)), now=now))
        for one in found.values()
        if one.problem is None and one.state in STARTABLE
    )
    return [(before, after) for before, after in judged if after is not None]
