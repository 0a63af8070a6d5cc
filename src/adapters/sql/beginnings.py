"""What the start of attempts writes: their executions, and a row for each of them."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, insert, select, update

from cronhare.domain.execution import Execution, State

from .tables import attempts, executions
from .types import UtcDateTime

_NOW = bindparam("now", type_=UtcDateTime)
_THESE = executions.c.id.in_(bindparam("ids", expanding=True))

_START = (
    update(executions)
    .where(_THESE)
    .values(
        state=State.RUNNING.value,
        owner=bindparam("owner"),
        lease_until=bindparam("lease_until", type_=UtcDateTime),
        started_at=func.coalesce(executions.c.started_at, _NOW),
        deaths=bindparam("deaths"),
        next_attempt_at=None,
        check_at=None,
        resends=0,
        version=executions.c.version + 1,
    )
)
#: Somebody may have put an execution back by hand whose attempt has a row: that row is taken, for
#: one that refused it would refuse the starts of all others beside it.
_RECORD = (
    insert(attempts)
    .prefix_with("IGNORE", dialect="mysql")
    .prefix_with("IGNORE", dialect="mariadb")
    .prefix_with("OR IGNORE", dialect="sqlite")
    .from_select(
        ["execution_id", "attempt", "node", "started_at"],
        select(executions.c.id, executions.c.attempt, executions.c.owner, _NOW).where(_THESE),
    )
)


def write_beginnings(
    connection: Connection,
    started: Collection[Execution],
    *,
    now: datetime,
    node: str,
    lease_until: datetime,
) -> None:
    """Write the starts of attempts, whose executions are locked, for *node*.

    They differ in nothing but their deaths, of which most have none.
    """
    by_deaths = defaultdict(list)
    for execution in started:
        by_deaths[execution.deaths].append(execution.id)
    for deaths, ids in by_deaths.items():
        asked = {"ids": ids, "owner": node, "lease_until": lease_until, "now": now}
        connection.execute(_START, {**asked, "deaths": deaths})
        connection.execute(_RECORD, {"ids": ids, "now": now})
