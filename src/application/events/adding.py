"""Adds events to the outbox: one that the ledger refuses costs no other."""

import logging
from collections.abc import Sequence
from typing import Final

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.ports.events import EventStorePort
from cronhare.ports.ledger import LedgerRefused

from ..logs import say

log = logging.getLogger(__name__)

#: Refused events of which it is remembered that they were said; then all are said again.
MOST_SAID: Final = 10_000


class Adder:
    """Adds what it can. What is refused is found, and refused, look by look: it is said once."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._said: set[tuple[str, str]] = set()

    def add(self, rows: Sequence[OutboxRow]) -> None:
        """Add what is not there yet, in halves where the ledger refuses the whole."""
        if not rows:
            return
        try:
            self._store.add(rows)
        except LedgerRefused as refusal:
            if len(rows) == 1:
                self.refused(rows[0], refusal)
                return
            half = len(rows) // 2
            self.add(rows[:half])
            self.add(rows[half:])

    def refused(self, row: OutboxRow, refusal: LedgerRefused) -> None:
        """Say who is not told of what."""
        place = (row.event_key, row.target)
        if place in self._said:
            return
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said.add(place)
        text = f"{row.target} is not told of {row.event_key}: {refusal}"
        say(log, logging.ERROR, "event.refused", text, schedule=row.schedule_name)
