"""Limiting unsettled deliveries over all queues of a subscription. No I/O here.

RabbitMQ counts a prefetch for each queue's consumer; a channel-wide one works with classic queues
only, and is deprecated. And after a reconnect the broker does not count what is still worked on. So
we count, and hold back the surplus: it is handed over as places become free, its queues served by
their weights, or given back to the queue before it has kept others waiting for long.
"""

from collections import deque
from collections.abc import Callable

import attrs

from cronhare.domain.queueing.fair_queueing import FairQueueing
from cronhare.ports.broker import Delivery


@attrs.frozen
class _Held:
    delivery: Delivery
    since: float


class PrefetchLimiter:
    """Hands over at most *limit* unsettled deliveries at a time."""

    def __init__(
        self,
        limit: int,
        hand_over: Callable[[Delivery], None],
        now: Callable[[], float],
        fair: FairQueueing,
    ) -> None:
        """*now* counts seconds; *fair* says which queue is served next."""
        self._limit = limit
        self._hand_over = hand_over
        self._now = now
        self._fair = fair
        self._in_hand: set[object] = set()
        self._surplus: dict[str, deque[_Held]] = {}  # by queue, of those that have some

    @property
    def has_room(self) -> bool:
        """Whether one more could be handed over."""
        return len(self._in_hand) < self._limit

    @property
    def has_some(self) -> bool:
        """Whether some are unsettled."""
        return bool(self._in_hand)

    @property
    def held_since(self) -> float | None:
        """Since when the oldest of the surplus has been held back."""
        return min((held[0].since for held in self._surplus.values()), default=None)

    def offer(self, delivery: Delivery) -> None:
        """Hand a delivery over if there is room, or hold it back."""
        if self.has_room and not self._surplus:
            self._give(delivery)
        else:
            held = _Held(delivery, self._now())
            self._surplus.setdefault(delivery.queue, deque()).append(held)

    def settle(self, tag: object) -> bool:
        """Make room; False for a tag that is not in hand, or not any more."""
        if tag not in self._in_hand:
            return False
        self._in_hand.discard(tag)
        while self._surplus and self.has_room:
            self._give(self._next())
        return True

    def take_back(self) -> list[Delivery]:
        """Give the surplus, the oldest first, and hold it no more."""
        surplus = [held for queue in self._surplus.values() for held in queue]
        self._surplus.clear()
        return [held.delivery for held in sorted(surplus, key=lambda held: held.since)]

    def _next(self) -> Delivery:
        queue = self._fair.next(self._surplus)
        held = self._surplus[queue].popleft()
        if not self._surplus[queue]:
            del self._surplus[queue]
        return held.delivery

    def _give(self, delivery: Delivery) -> None:
        self._in_hand.add(delivery.tag)
        self._fair.serve(delivery.queue)
        self._hand_over(delivery)
