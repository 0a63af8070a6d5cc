"""Since when a worker could have started what is due: how it knows an outage from a long queue."""

from collections.abc import Callable
from typing import Final

from cronhare.domain.lifecycle.catching_up import OUTAGE

#: A place that is free for so many seconds, and gets nothing: no message of ours is in the queue.
#: Between an ack and the next delivery of a long queue milliseconds pass.
IDLE: Final = 1.0


class Availability:
    """When this worker was free last: it had a place for what was due, and was given nothing.

    It was free before it began, and while the broker gave it nothing. While the ledger is away it
    has its places full of what cannot start; when that is over, that counts as free, too.
    """

    def __init__(self, monotonic: Callable[[], float], *, places: int) -> None:
        """*monotonic* counts seconds; at most *places* deliveries are in hand at a time."""
        self._monotonic = monotonic
        self._places = places
        self._in_hand = 0
        self._failing_since: float | None = None
        self.free_at = self._waiting_since = monotonic()

    def take(self) -> None:
        """Note that a delivery came."""
        now = self._monotonic()
        if self._in_hand < self._places and now - self._waiting_since >= IDLE:
            self.free_at = now
        self._in_hand += 1
        self._waiting_since = now

    def release(self) -> None:
        """Note that one is settled."""
        if self._in_hand >= self._places:
            self._waiting_since = self._monotonic()
        self._in_hand -= 1

    def ask(self, at: float) -> None:
        """Note that the ledger is asked to start something."""
        since = self._failing_since
        if since is not None and at - since >= OUTAGE.total_seconds():
            self.free_at = at

    def note_failure(self, at: float) -> None:
        """Note that the ledger did not answer what it was asked at that time."""
        if self._failing_since is None:
            self._failing_since = at

    def note_answer(self) -> None:
        """Note that it answered."""
        self._failing_since = None
