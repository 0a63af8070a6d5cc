"""RabbitMQ's asynchronous side, through aio-pika."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Self

from cronhare.domain.shutdown_times import DISCONNECTING
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.broker import Delivery, Envelope, Published

from .connection.address import Address
from .connection.async_connection import ANSWER_TIMEOUT
from .consumer.async_consumer import AsyncConsumer
from .consumer.subscription import LIVENESS_INTERVAL
from .publisher.async_publisher import AsyncPublisher
from .topology.async_declarer import AsyncTopologyDeclarer
from .topology.desired import DesiredTopology
from .wire.versions import QUORUM

#: Seconds that a publish may take, connecting included.
PUBLISH_TIMEOUT = 10.0


class AioPikaBroker:
    """Consumes and publishes for the worker, on one event loop. Satisfies `AsyncBrokerPort`.

    Each call of `consume` or `consume_apart` has a connection of its own, and publishing has
    another; they are opened when they are needed, and again whenever they are lost.
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
        address = Address.parse(url)
        desired = DesiredTopology(
            retry_delay=retry_delay,
            queues=queues,
            queue_type=queue_type,
            deduplication=deduplication,
        )
        self._declarer = AsyncTopologyDeclarer(address, desired)
        self._consumer = AsyncConsumer(
            address,
            desired,
            self._declarer,
            liveness_interval=liveness_interval,
            answer_timeout=answer_timeout,
        )
        self._publisher = AsyncPublisher(
            address, timeout=publish_timeout, restore=self._declarer.restore
        )

    async def connect(self) -> Self:
        """Declare the topology now instead of with the first `consume`.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        await self._declarer.declare()
        return self

    async def consume(
        self,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        await self._consumer.consume(
            queues, prefetch=prefetch, on_delivery=on_delivery, weights=weights
        )

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        await self._consumer.consume_apart(queue, on_delivery=on_delivery)

    async def leave(self, queue: str) -> None:
        await self._consumer.leave(queue)

    def is_consuming(self) -> bool:
        return self._consumer.is_consuming()

    def left_out(self) -> Collection[str]:
        return self._consumer.left_out()

    async def pause(self) -> None:
        await self._consumer.pause()

    async def resume(self) -> None:
        self._consumer.resume()

    async def ack(self, delivery: Delivery) -> None:
        await self._consumer.ack(delivery)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        await self._consumer.nack(delivery, requeue=requeue)

    async def publish(self, envelope: Envelope) -> Published:
        return await self._publisher.publish(envelope)

    async def close(self) -> None:
        """Stop consuming. What was not settled goes back to its queue. Safe to repeat.

        It takes at most `DISCONNECTING`, whatever the broker does: that is hung up on then.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCONNECTING):
                await asyncio.gather(self._consumer.close(), self._publisher.close())
