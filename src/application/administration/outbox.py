"""What people read of the outbox."""

from collections.abc import Collection, Sequence

from cronhare.domain.lifecycle.events import OutboxState
from cronhare.ports.events import EventStorePort

from .views.events import EventView


class Outbox:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(self, events: EventStorePort) -> None:
        """*events* is the ledger's."""
        self._events = events

    def events(
        self, *, states: Collection[OutboxState], schedule: str | None, limit: int
    ) -> Sequence[EventView]:
        """List events and their targets, newest first; those in any of *states*, if some are."""
        found = self._events.rows(states=states, schedule=schedule, limit=limit)
        return [EventView.of(row) for row in found]
