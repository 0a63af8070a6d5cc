"""Events: who was told of what."""

from datetime import datetime
from typing import Any, Self

import attrs

from cronhare.domain.events.outbox import OutboxRow

from .values import json_value, same


@attrs.frozen(kw_only=True)
class EventView:
    """One event for one target; *state* is a `OutboxState`.

    *tries* counts those that have begun; *last_error* is of the last one. *document* is what the
    target gets; None while a recovery is only expected.
    """

    id: int
    event_id: str
    event: str
    schedule_name: str
    scheduler_id: int
    execution_id: int | None
    target: str
    source: str
    state: str
    tries: int
    occurred_at: datetime
    next_try_at: datetime | None
    finished_at: datetime | None
    last_error: str | None
    document: Any
    problem: None = None  # of ledgers in which rows could be broken

    @classmethod
    def of(cls, row: OutboxRow) -> Self:
        document = json_value(row.payload) if row.payload else None
        return cls(**same(cls, row), event_id=row.event_key, document=document)
