"""Queues that cannot be consumed for now. Each is tried again by itself, ever more rarely."""

import logging
from collections.abc import Callable, Iterable

import attrs

from cronhare.application.outages import Outage

from ..connection.backoff import Backoff

log = logging.getLogger(__name__)


@attrs.define
class _Absence:
    outage: Outage
    backoff: Backoff = attrs.field(factory=Backoff)
    try_at: float | None = None


class Absences:
    """Remembers them until a consumer of theirs has proved that it lives.

    Until then its loss is the same absence: a queue that somebody deletes over and over is
    declared more and more slowly.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """*now* counts seconds."""
        self._now = now
        self._absences: dict[str, _Absence] = {}

    def note(self, queue: str, why: object) -> None:
        """A queue was refused or lost: leave it out for a while."""
        absence = self._absences.get(queue)
        if absence is None:
            outage = Outage(log, f"Consuming {queue} again", back="queue.back")
            absence = self._absences[queue] = _Absence(outage)
        absence.try_at = self._now() + absence.backoff.next()
        text = f"Cannot consume {queue}, which is left out and tried again"
        absence.outage.lasts(logging.WARNING, "queue.unavailable", text, why)

    def tried(self, queue: str) -> None:
        """It is consumed, which it has yet to prove."""
        if queue in self._absences:
            self._absences[queue].try_at = None

    def are_over(self, queues: Iterable[str]) -> None:
        """Their consumers have proved that they live."""
        for queue in queues:
            absence = self._absences.pop(queue, None)
            if absence is not None:
                absence.outage.is_over()

    @property
    def names(self) -> list[str]:
        """Those that are left out, whether they are due or not."""
        return [queue for queue, each in self._absences.items() if each.try_at is not None]

    def due(self) -> list[str]:
        """Those that are to be tried again."""
        return [
            queue
            for queue, absence in self._absences.items()
            if absence.try_at is not None and absence.try_at <= self._now()
        ]

    @property
    def next_at(self) -> float | None:
        """When the next one is due."""
        waiting = [each.try_at for each in self._absences.values() if each.try_at is not None]
        return min(waiting, default=None)
