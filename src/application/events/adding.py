"""Adds events to the outbox: one that the ledger refuses costs no other."""

import logging
from collections.abc import Sequence
from typing import Final

from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.ports import LedgerRefused
from cronhare.ports.events import EventStorePort

from ..logs import say

log = logging.getLogger(__name__)

#: Refused events of which it is remembered that they were said; then all are said again.
MOST_SAID: Final = 10_000


#: Refusals of a look's events of one kind, while the refused ones are searched for: few events
#: are found in so many, and a ledger that takes none at all is asked no further.
MOST_REFUSALS: Final = 50


class Adder:
    """Adds what it can. What is refused is found, and refused, look by look: it is said once."""

    def __init__(self, store: EventStorePort) -> None:
        self._store = store
        self._said: set[tuple[str, str]] = set()
        self._refusals_left = MOST_REFUSALS

    def begin(self) -> None:
        """Begin a look for events of one kind."""
        self._refusals_left = MOST_REFUSALS

    def add(self, rows: Sequence[OutboxRow]) -> bool:
        """Add what is not there yet, in halves where the ledger refuses the whole.

        Those that were refused before come last, lest they use up the refusals that are left.
        False says that others were not tried by themselves: they are to be added once more.
        """
        refused = [row for row in rows if _place(row) in self._said]
        is_over = self._add([row for row in rows if _place(row) not in self._said])
        if self._refusals_left > 0:
            self._add(refused)
        return is_over

    def _add(self, rows: Sequence[OutboxRow]) -> bool:
        if not rows:
            return True
        try:
            self._store.add(rows)
        except LedgerRefused as refusal:
            self._refusals_left -= 1
            if len(rows) == 1:
                self.refused(rows[0], refusal)
                return True
            half = len(rows) // 2
            return all(
                self._refusals_left > 0 and self._add(part) for part in (rows[:half], rows[half:])
            )
        return True

    def refused(self, row: OutboxRow, refusal: LedgerRefused) -> None:
        """Say who is not told of what."""
        place = _place(row)
        if place in self._said:
            return
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said.add(place)
        text = f"{row.target} is not told of {row.event_key}: {refusal}"
        say(log, logging.ERROR, "event.refused", text, schedule=row.schedule_name)


def _place(row: OutboxRow) -> tuple[str, str]:
    return row.event_key, row.target
