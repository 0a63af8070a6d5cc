"""Consuming on an event loop: each call of `consume` is a subscription."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.address import Address
from ..topology.async_declarer import AsyncTopologyDeclarer
from ..topology.desired import DesiredTopology
from .consumer import Tag
from .subscription import Subscription


class AsyncConsumer:
    """Hands deliveries out, and settles them: the consuming half of `AioPikaBroker`.

    Each call of `consume` or `consume_apart` has a connection of its own, made again whenever it is
    lost. What was consumed before a loss is consumed after it.
    """

    def __init__(
        self,
        address: Address,
        desired: DesiredTopology,
        declarer: AsyncTopologyDeclarer,
        *,
        liveness_interval: float,
        answer_timeout: float,
    ) -> None:
        """Times are in seconds: see `AioPikaBroker`."""
        self._address = address
        self._desired = desired
        self._declarer = declarer
        self._liveness_interval = liveness_interval
        self._answer_timeout = answer_timeout
        self._subscriptions: list[Subscription] = []
        self._apart: dict[str, Subscription] = {}  # by their queues
        self._closed = False

    async def consume(
        self,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """Begin to hand deliveries out; a queue that was not declared yet is declared.

        *prefetch* counts over all these queues. A second call adds a consumer with its own.

        Raises:
            BrokerUnavailable: the broker is away, or refuses all of the queues, or this is closed.
            ValueError: *prefetch* is less than 1, or a queue cannot have that name.
        """
        if prefetch < 1:
            raise ValueError(f"a prefetch of {prefetch} would never deliver anything")
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        subscription = self._subscription(
            queues, weights=weights or {}, prefetch=prefetch, on_delivery=on_delivery
        )
        self._subscriptions.append(subscription)  # first: deliveries may be settled at once
        try:
            await subscription.start()
        except BaseException:
            if subscription in self._subscriptions:  # else it was closed meanwhile
                self._subscriptions.remove(subscription)
            raise

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        """Begin to consume a queue beside all others: it is asked for until the broker gives it.

        Raises:
            BrokerUnavailable: this is closed.
            ValueError: a queue cannot have that name.
        """
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        if queue in self._apart:
            return
        subscription = self._subscription(
            [queue], weights={}, prefetch=1, on_delivery=on_delivery, is_apart=True
        )
        self._subscriptions.append(subscription)
        self._apart[queue] = subscription
        subscription.resume()

    async def leave(self, queue: str) -> None:
        """Consume no more what `consume_apart` has begun; wait until what is in hand is settled."""
        subscription = self._apart.pop(queue, None)
        if subscription is None:
            return
        await subscription.end()
        if subscription in self._subscriptions:  # else it was closed meanwhile
            self._subscriptions.remove(subscription)

    def is_consuming(self) -> bool:
        """Whether each subscription has a connection whose consumers live; any thread may ask.

        Those apart say nothing of the others.
        """
        wanted = [each for each in self._subscriptions if each.is_wanted and not each.is_apart]
        return bool(wanted) and all(each.is_live for each in wanted)

    def left_out(self) -> Collection[str]:
        """Name the queues that are left out, and tried again; any thread may ask."""
        return {queue for each in self._subscriptions for queue in each.left_out}

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        await asyncio.gather(*(each.pause() for each in self._subscriptions))

    def resume(self) -> None:
        """Take deliveries again, as before `pause`; the broker is asked beside the caller."""
        for subscription in self._subscriptions:
            subscription.resume()

    async def ack(self, delivery: Delivery) -> None:
        """Settle a delivery of ours; any other is left alone, and comes again."""
        self._settle(delivery, acked=True)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a delivery back (*requeue*), or hand it to its queue's dead-letter exchange."""
        self._settle(delivery, acked=False, requeue=requeue)

    async def close(self) -> None:
        """Stop consuming. What was not settled goes back to its queue. Safe to repeat."""
        self._closed = True
        subscriptions, self._subscriptions = self._subscriptions, []
        await asyncio.gather(*(each.close() for each in subscriptions))

    def _subscription(
        self,
        queues: Sequence[str],
        *,
        weights: Mapping[str, int],
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        is_apart: bool = False,
    ) -> Subscription:
        self._desired.add_queues(queue for queue in queues if not self._desired.includes(queue))
        return Subscription(
            self._address,
            queues,
            weights=weights,
            prefetch=prefetch,
            on_delivery=on_delivery,
            declare=self._declarer.refresh,
            invalidate=self._desired.invalidate,
            liveness_interval=self._liveness_interval,
            answer_timeout=self._answer_timeout,
            is_apart=is_apart,
        )

    def _settle(self, delivery: Delivery, *, acked: bool, requeue: bool = False) -> None:
        tag = delivery.tag
        if isinstance(tag, Tag):
            for subscription in tuple(self._subscriptions):  # one may be left meanwhile
                subscription.settle(tag, acked=acked, requeue=requeue)
