"""Whether another execution could start: tried, and rolled back."""

import random
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import bindparam, select

from cronhare.domain.lifecycle.transitions import begin
from cronhare.domain.schedules.task import SYSTEM
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..isolation.suspects import Kind
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
)


class TrialSucceeded(Exception):
    """It could; raised to roll the trial back."""


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
    if not isinstance(kind, StartKind):
        return False
    least, most = (1, 1) if kind.is_first else (2, COUNTS[-1])
    asked = {"ids": list(wanted), "state": kind.state.value, "least": least, "most": most}
    try:
        with database.write("trying to start another") as connection:
            others = _OTHERS.with_for_update(skip_locked=True)
            rows = connection.execute(others, asked)
            found = [one for one in executions_of(connection, rows) if one.problem is None]
            if found:
                one = random.choice(found)  # noqa: S311
                started = begin(one, deaths=0, node=node, lease_until=until, now=now)
                write_starts(connection, database.dialect, [(one, started)], now=now, node=node)
                raise TrialSucceeded  # noqa: TRY301 - it takes the transaction back
    except TrialSucceeded:
        return True
    except (LedgerRefused, LedgerUnavailable):
        return False
    return False
