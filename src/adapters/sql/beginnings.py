"""What the start of attempts writes: their executions, and a row for each of them."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, Self

from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from cronhare.domain.execution import Execution, State

from .tables import attempts, executions, outputs
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
_THIS_ATTEMPT = and_(
    attempts.c.execution_id == executions.c.id, attempts.c.attempt == executions.c.attempt
)
_RECORD = insert(attempts).from_select(
    ["execution_id", "attempt", "node", "started_at"],
    select(executions.c.id, executions.c.attempt, executions.c.owner, _NOW).where(
        _THESE, ~exists().where(_THIS_ATTEMPT)
    ),
)
#: Somebody has put an execution back by hand whose attempt has a row, and output perhaps: it begins
#: anew. A row that refused it would refuse the starts of all others beside it.
_RECORD_ANEW = (
    update(attempts)
    .where(exists().where(_THIS_ATTEMPT, _THESE))
    .values(
        node=bindparam("owner"),
        started_at=_NOW,
        **dict.fromkeys(
            (
                "finished_at",
                "ending",
                "exit_code",
                "signal",
                "pid",
                "error",
                "peak_memory",
                "cpu_seconds",
            )
        ),
    )
)
_FORGET_OUTPUT = delete(outputs).where(
    exists().where(
        outputs.c.execution_id == executions.c.id, outputs.c.attempt == executions.c.attempt, _THESE
    )
)


class Beginning(NamedTuple):
    """What a rule can tell of a start: from which state it leads, and whether it is the first."""

    state: State
    is_first: bool

    @classmethod
    def of(cls, waiting: Execution) -> Self:
        """Read it of an execution before its start."""
        return cls(waiting.state, waiting.attempt == 1)


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
        recorded = connection.execute(_RECORD, {"ids": ids, "now": now}).rowcount
        if recorded < len(ids):
            connection.execute(_RECORD_ANEW, asked)
            connection.execute(_FORGET_OUTPUT, {"ids": ids})
