"""What the start of attempts writes: their executions, and a row for each of them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, bindparam, delete, exists, insert, select, update

from ..dialect import Dialect
from ..mapping.transition_columns import Change, write_changes
from ..schema.tables import THESE, attempts, executions, outputs
from ..schema.types import UtcDateTime

_NOW = bindparam("now", type_=UtcDateTime)

_THIS_ATTEMPT = and_(
    attempts.c.execution_id == executions.c.id, attempts.c.attempt == executions.c.attempt
)
_RECORD = insert(attempts).from_select(
    ["execution_id", "attempt", "node", "started_at"],
    select(executions.c.id, executions.c.attempt, executions.c.owner, _NOW).where(
        THESE, ~exists().where(_THIS_ATTEMPT)
    ),
)
#: An execution was put back by hand, and its attempt has a row, perhaps output: both begin anew. A
#: duplicate row would refuse the starts of the whole batch.
_RECORD_ANEW = (
    update(attempts)
    .where(exists().where(_THIS_ATTEMPT, THESE))
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
                "left_running",
            )
        ),
    )
)
_FORGET_OUTPUT = delete(outputs).where(
    exists().where(
        outputs.c.execution_id == executions.c.id, outputs.c.attempt == executions.c.attempt, THESE
    )
)


def write_starts(
    connection: Connection, dialect: Dialect, started: Sequence[Change], *, now: datetime, node: str
) -> None:
    """Write the starts of attempts, whose executions are locked, for *node*."""
    if not started:
        return
    write_changes(connection, dialect, started)
    ids = [before.id for before, _ in started]
    recorded = connection.execute(_RECORD, {"ids": ids, "now": now}).rowcount
    if recorded < len(ids):
        connection.execute(_RECORD_ANEW, {"ids": ids, "owner": node, "now": now})
        connection.execute(_FORGET_OUTPUT, {"ids": ids})
