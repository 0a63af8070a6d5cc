"""RabbitMQ's asynchronous side, through aio-pika."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Self

from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Published

from .connection.address import Address
from .connection.async_connection import ANSWER_TIMEOUT
from .consumer.consumer import Tag
from .consumer.subscription import LIVENESS_INTERVAL, Subscription
from .publisher.async_publisher import AsyncPublisher
from .topology.async_declarer import AsyncTopologyDeclarer
from .topology.desired import DesiredTopology
from .wire.versions import QUORUM

#: Seconds that a publish may take, connecting included.
PUBLISH_TIMEOUT = 10.0


class AioPikaBroker:
    """Consumes and publishes for the worker, on one event loop. Satisfies `AsyncBrokerPort`.

    Each call of `consume` has a connection of its own, and publishing has another; they are opened
    when they are needed, and again whenever they are lost.
    """

    def __init__(
        self,
        url: str,
        *,
        retry_delay: timedelta = timedelta(seconds=30),
        queues: Iterable[str] = (MAIN_QUEUE,),
        queue_type: str = QUORUM,
        deduplication: bool = False,
        publish_timeout: float = PUBLISH_TIMEOUT,
        liveness_interval: float = LIVENESS_INTERVAL,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """*retry_delay* is how long a nacked message rests; the times below it are in seconds.

        The broker is asked about our consumers every *liveness_interval*, and the connection is
        lost if it does not answer within *answer_timeout*.

        Raises:
            ValueError: the URL, the name of a queue or *queue_type* cannot be used.
        """
        self._address = address = Address.parse(url)
        self._desired = DesiredTopology(
            retry_delay=retry_delay,
            queues=queues,
            queue_type=queue_type,
            deduplication=deduplication,
        )
        self._declarer = AsyncTopologyDeclarer(address, self._desired)
        self._publisher = AsyncPublisher(
            address, timeout=publish_timeout, restore=self._declarer.restore
        )
        self._liveness_interval = liveness_interval
        self._answer_timeout = answer_timeout
        self._subscriptions: list[Subscription] = []
        self._closed = False

    async def connect(self) -> Self:
        """Declare the topology now instead of with the first `consume`.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        await self._declarer.declare()
        return self

    async def consume(
        self, queues: Sequence[str], *, prefetch: int, on_delivery: Callable[[Delivery], None]
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
        self._desired.add_queues(queue for queue in queues if not self._desired.includes(queue))
        await self._drop_idle()
        subscription = Subscription(
            self._address,
            queues,
            prefetch=prefetch,
            on_delivery=on_delivery,
            declare=self._declarer.refresh,
            invalidate=self._desired.invalidate,
            liveness_interval=self._liveness_interval,
            answer_timeout=self._answer_timeout,
        )
        self._subscriptions.append(subscription)  # first: deliveries may be settled at once
        try:
            await subscription.start()
        except BaseException:
            if subscription in self._subscriptions:  # else it was closed meanwhile
                self._subscriptions.remove(subscription)
            raise

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        for subscription in self._subscriptions:
            await subscription.pause()

    async def ack(self, delivery: Delivery) -> None:
        """Settle a delivery of ours; any other is left alone, and comes again."""
        await self._settle(delivery, acked=True)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a delivery back (*requeue*), or hand it to its queue's dead-letter exchange."""
        await self._settle(delivery, acked=False, requeue=requeue)

    async def publish(self, envelope: Envelope) -> Published:
        """See `AsyncPublisher.publish`."""
        return await self._publisher.publish(envelope)

    async def close(self) -> None:
        """Stop consuming. What was not settled goes back to its queue. Safe to repeat."""
        self._closed = True
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.close()
        await self._publisher.close()

    async def _settle(self, delivery: Delivery, *, acked: bool, requeue: bool = False) -> None:
        tag = delivery.tag
        if isinstance(tag, Tag):
            for subscription in self._subscriptions:
                await subscription.settle(tag, acked=acked, requeue=requeue)

    async def _drop_idle(self) -> None:
        for subscription in [each for each in self._subscriptions if each.is_idle]:
            self._subscriptions.remove(subscription)
            await subscription.close()
