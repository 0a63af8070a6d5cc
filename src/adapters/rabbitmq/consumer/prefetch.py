"""Limiting unsettled deliveries over all queues of a subscription. No I/O here.

RabbitMQ counts a prefetch for each queue's consumer; a channel-wide one works with classic queues
only, and is deprecated. And after a reconnect the broker does not count what is still worked on. So
we count, and hold back the surplus: it is handed over as places become free, or given back to
the queue before it has kept others waiting for long.
"""

from collections import deque
from collections.abc import Callable

import attrs

from cronhare.ports.broker import Delivery


@attrs.frozen
class _Held:
    delivery: Delivery
    since: float


class PrefetchLimiter:
    """Hands over at most *limit* unsettled deliveries at a time."""

    def __init__(
        self, limit: int, hand_over: Callable[[Delivery], None], now: Callable[[], float]
    ) -> None:
        """*now* counts seconds."""
        self._limit = limit
        self._hand_over = hand_over
        self._now = now
        self._in_hand: set[object] = set()
        self._surplus: deque[_Held] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more could be handed over."""
        return len(self._in_hand) < self._limit

    @property
    def in_hand(self) -> int:
        """How many deliveries are unsettled."""
        return len(self._in_hand)

    @property
    def held_since(self) -> float | None:
        """Since when the oldest of the surplus has been held back."""
        return self._surplus[0].since if self._surplus else None

    def offer(self, delivery: Delivery) -> None:
        """Hand a delivery over if there is room, or hold it back."""
        if self.has_room and not self._surplus:
            self._give(delivery)
        else:
            self._surplus.append(_Held(delivery, self._now()))

    def settle(self, tag: object) -> bool:
        """Make room; False for a tag that is not in hand, or not any more."""
        if tag not in self._in_hand:
            return False
        self._in_hand.discard(tag)
        while self._surplus and self.has_room:
            self._give(self._surplus.popleft().delivery)
        return True

    def take_back(self) -> list[Delivery]:
        """Give the surplus, the oldest first, and hold it no more."""
        surplus = [held.delivery for held in self._surplus]
        self._surplus.clear()
        return surplus

    def _give(self, delivery: Delivery) -> None:
        self._in_hand.add(delivery.tag)
        self._hand_over(delivery)
