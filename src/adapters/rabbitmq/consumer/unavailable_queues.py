"""Queues that cannot be consumed for now. Each is tried again by itself, with growing waits."""

import logging
from collections.abc import Callable, Iterable

import attrs

from cronhare.application.outages import Outage

from ..connection.backoff import Backoff

log = logging.getLogger(__name__)


@attrs.define
class _Unavailable:
    outage: Outage
    backoff: Backoff = attrs.field(factory=Backoff)
    retry_at: float | None = None


class UnavailableQueues:
    """Remembers a queue until its consumer has passed a liveness check.

    A loss before that goes on with the same waits: a queue that is deleted over and over is
    declared more and more slowly.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """*now* counts seconds."""
        self._now = now
        self._unavailable: dict[str, _Unavailable] = {}

    def note(self, queue: str, why: object) -> None:
        """A queue was refused or lost: leave it out for a while."""
        unavailable = self._unavailable.get(queue)
        if unavailable is None:
            outage = Outage(log, f"Consuming {queue} again", back="queue.back")
            unavailable = self._unavailable[queue] = _Unavailable(outage)
        unavailable.retry_at = self._now() + unavailable.backoff.next()
        text = f"Cannot consume {queue}, which is left out and tried again"
        unavailable.outage.lasts(logging.WARNING, "queue.unavailable", text, why)

    def tried(self, queue: str) -> None:
        """It is consumed, and has not passed a liveness check yet."""
        if queue in self._unavailable:
            self._unavailable[queue].retry_at = None

    def recovered(self, queues: Iterable[str]) -> None:
        """Their consumers have passed a liveness check."""
        for queue in queues:
            unavailable = self._unavailable.pop(queue, None)
            if unavailable is not None:
                unavailable.outage.is_over()

    @property
    def names(self) -> list[str]:
        """All that are left out, whether they are due or not; any thread may ask."""
        return list(self._waiting())

    def due(self) -> list[str]:
        """Those that are to be tried again."""
        return [queue for queue, retry_at in self._waiting().items() if retry_at <= self._now()]

    @property
    def next_at(self) -> float | None:
        """When the next one is due."""
        return min(self._waiting().values(), default=None)

    def _waiting(self) -> dict[str, float]:
        known = self._unavailable.copy()  # at once: another thread may ask
        return {queue: each.retry_at for queue, each in known.items() if each.retry_at is not None}
