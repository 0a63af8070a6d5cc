"""Whether schedulers are at work: what they claimed last, and what is overdue."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, or_, select

from cronhare.domain.diagnosis.overdue import LastClaim, Late
from cronhare.domain.schedules.keys import DUE

from ..mapping.execution_rows import display_name
from ..mapping.schedule_rows import moment_or_long_ago
from ..schema.tables import executions, plans, schedulers
from ..schema.types import UtcDateTime

#: A claim is looked for among so many of the newest executions: the rest may be manual runs.
NEWEST: Final = 1_000

_newest = (
    select(*(executions.c[name] for name in ("id", "execution_key", "executed_at", "container_id")))
    .order_by(executions.c.id.desc())
    .limit(NEWEST)
    .subquery()
)
_CLAIMS: Select[Any] = (
    select(_newest.c.executed_at, _newest.c.container_id)
    .where(or_(*(_newest.c.execution_key.like(f"{kind}%") for kind in DUE)))
    .order_by(_newest.c.id.desc())
    .limit(1)
)

#: Without schedules that cannot be planned: they are reported as such, and may stay due for another
#: replica (see `cursor_after`).
_OVERDUE = (
    select(plans.c.scheduler_id, schedulers.c.name, plans.c.next_due_at)
    .select_from(plans.outerjoin(schedulers, schedulers.c.id == plans.c.scheduler_id))
    .where(plans.c.next_due_at <= bindparam("now", type_=UtcDateTime), plans.c.problem.is_(None))
    .order_by(plans.c.next_due_at, plans.c.scheduler_id)
)

_EARLIEST = select(func.min(plans.c.next_due_at))


def last_claim(connection: Connection) -> LastClaim | None:
    """Find the newest claim of a due instant; None if its row is broken."""
    row = connection.execute(_CLAIMS).first()
    if row is None or not isinstance(row.executed_at, datetime):
        return None
    return LastClaim(row.executed_at, str(row.container_id))


def earliest(connection: Connection) -> datetime | None:
    """Find the earliest of all due instants."""
    found: object = connection.scalar(_EARLIEST)
    return None if found is None else moment_or_long_ago(found)


def overdue(connection: Connection, now: datetime) -> Sequence[Late]:
    """List the schedules that are due and could be claimed, also the system's own."""
    return [
        Late(display_name(row.name, row.scheduler_id), moment_or_long_ago(row.next_due_at))
        for row in connection.execute(_OVERDUE, {"now": now})
    ]
