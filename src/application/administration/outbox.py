"""What people read of the outbox."""

from collections.abc import Collection, Sequence

from cronhare.domain.events.outbox import OutboxState
from cronhare.ports.events import EventStorePort

from .names import Names
from .views.events import EventView


class Outbox:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(self, events: EventStorePort, names: Names) -> None:
        """*events* is the ledger's."""
        self._events = events
        self._names = names

    def events(
        self, *, states: Collection[OutboxState], schedule: str | None, limit: int
    ) -> Sequence[EventView]:
        """List events and their targets, newest first; those in any of *states*, if some are.

        Raises:
            NotFound: there is no such schedule, and no event of one.
        """
        found = self._events.rows(states=states, schedule=schedule, limit=limit)
        if not found:
            self._names.expect_schedule(schedule)
        return [EventView.of(row) for row in found]
