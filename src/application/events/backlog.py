"""Targets for which too much waits already: they are told of no more, and all others are."""

import logging
from collections.abc import Collection
from typing import Final

import attrs

from cronhare.domain.schedules.notify import Subscriptions
from cronhare.domain.texts.words import counted
from cronhare.ports.events import EventStorePort

from ..logs import say

log = logging.getLogger(__name__)

#: So many events may wait for a target of a jobs file.
MOST_WAITING: Final = 100_000


@attrs.define(eq=False)
class Backlog:
    """Knows which targets are full, and counts what they are not told of.

    Bad ends wait in the archive meanwhile; arrivals, skips and late starts are left out.
    """

    _store: EventStorePort
    _left_out: dict[str, set[str]] = attrs.field(init=False, factory=dict[str, set[str]])

    def full(self, subscriptions: Subscriptions) -> Collection[str]:
        """Name the targets that are full now; what changes is said once."""
        if subscriptions.is_empty:
            return ()
        waiting = self._store.waiting(subscriptions.names, source=subscriptions.source or "")
        full = {name for name, rows in waiting.items() if rows >= MOST_WAITING}
        for name in sorted(full - self._left_out.keys()):
            self._left_out[name] = set()
            text = (
                f"{MOST_WAITING:,} events wait for {name}: its other failures wait in the archive, "
                "for a day at most; of arrivals, skips and late starts it is told no more"
            )
            say(log, logging.WARNING, "event.full", text)
        for name in sorted(self._left_out.keys() - full):
            missed = counted(len(self._left_out.pop(name)), "arrival, skip or late start")
            text = f"{name} is told of events again; of {missed} it was not told"
            say(log, logging.WARNING, "event.full", text)
        return full

    def leave_out(self, target: str, event_id: str) -> None:
        """Count an event that a full target is not told of, each once."""
        if len(missed := self._left_out[target]) < MOST_WAITING:
            missed.add(event_id)
