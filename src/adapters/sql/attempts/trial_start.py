"""Whether another execution could start: tried, and rolled back."""

import random
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from cronhare.domain.lifecycle.transitions import begin
from cronhare.domain.schedules.task import SYSTEM

from ..isolation.suspects import Kind
from ..isolation.trial import is_accepted
from ..mapping.execution_rows import EXECUTION, executions_of
from ..mapping.tolerant_reading import COUNTS
from ..schema.tables import THESE, executions
from ..transactions.database import Database
from .start_writes import StartKind, write_starts

#: A random one of so many is tried: another time it is another one.
_CHOICE = 10

_OTHERS = (
    EXECUTION.where(
        executions.c.state == bindparam("state"),
        executions.c.attempt.between(bindparam("least"), bindparam("most")),
        executions.c.task_type != SYSTEM,
        executions.c.scheduler_id.not_in(select(executions.c.scheduler_id).where(THESE)),
    )
    .order_by(executions.c.check_at)
    .limit(_CHOICE)
    .with_for_update(skip_locked=True)
)


def could_start_another(
    database: Database,
    wanted: Collection[int],
    kind: Kind,
    *,
    now: datetime,
    node: str,
    until: datetime,
) -> bool:
    """Tell whether an execution of another schedule than the *wanted* could start.

    The *kind* of start is the same. If no other waits, the refused ones keep none waiting.
    """
    if not isinstance(kind, StartKind) or kind.is_gated:
        return False
    least, most = (1, 1) if kind.is_first else (2, COUNTS[-1])
    asked = {"ids": list(wanted), "state": kind.state.value, "least": least, "most": most}

    def start_one(connection: Connection) -> bool:
        rows = connection.execute(_OTHERS, asked)
        found = [one for one in executions_of(connection, rows) if one.problem is None]
        if not found:
            return False
        one = random.choice(found)  # noqa: S311
        started = begin(one, deaths=0, node=node, lease_until=until, now=now)
        write_starts(connection, database.dialect, [(one, started)], now=now, node=node)
        return True

    return is_accepted(database, "trying to start another", start_one)
