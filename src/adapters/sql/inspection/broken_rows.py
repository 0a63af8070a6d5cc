"""Rows of our own tables that do not fit, as `cronhare doctor` sees them."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, Table, select

from ..audit import ENTRY
from ..events.alerts import ALERT
from ..events.outbox import DELIVERY
from ..mapping.archive_rows import FAILURE
from ..mapping.limit_rows import BREAKER, BUDGET
from ..mapping.own_rows import ATTEMPT, OUTPUT, REPLAY, TALLY, BrokenRow, OwnTable
from ..mapping.pauses import PAUSE
from ..schema.tables import (
    alerts,
    attempts,
    audit,
    breakers,
    budgets,
    failed_tasks,
    outbox,
    outputs,
    pauses,
    replays,
    topic_tallies,
)

#: The newest rows of each table that are looked at.
MOST_READ: Final = 1_000

#: Reports of nodes are judged by themselves, and executions are set apart where they are met.
_LOOKED_AT: Final[tuple[tuple[Table, OwnTable], ...]] = (
    (alerts, ALERT),
    (attempts, ATTEMPT),
    (audit, ENTRY),
    (breakers, BREAKER),
    (budgets, BUDGET),
    (failed_tasks, FAILURE),
    (outbox, DELIVERY),
    (outputs, OUTPUT),
    (pauses, PAUSE),
    (replays, REPLAY),
    (topic_tallies, TALLY),
)


def broken_rows(connection: Connection) -> Iterator[str]:
    """Name table, row and column of each."""
    for table, own in _LOOKED_AT:
        newest = [key.desc() for key in table.primary_key]
        rows = connection.execute(select(table).order_by(*newest).limit(MOST_READ))
        yield from (str(each) for each in own.each(rows) if isinstance(each, BrokenRow))
