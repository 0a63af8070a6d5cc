"""What the start of attempts writes: their executions, and a row for each of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Self

from sqlalchemy import Connection, and_, bindparam, delete, exists, insert, select, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.gates import gates_of

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


class StartKind(NamedTuple):
    """What a rule can tell of a start: the state before it, and whether it is the first.

    And whether it passes gates, or is held back there.
    """

    state: State
    is_first: bool
    is_gated: bool = False
    is_held: bool = False

    @classmethod
    def of(cls, waiting: Execution, *, held: bool = False) -> Self:
        """Read it of an execution before its start."""
        return cls(waiting.state, waiting.attempt == 1, bool(gates_of(waiting)), held)


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
