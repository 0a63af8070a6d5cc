"""One connection for consuming: its consumers, and the checks that they live."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aio_pika.abc import AbstractChannel

from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.async_connection import close_connection, translate_errors
from ..connection.errors import describe
from .consumer import Consumer, QueueRefused, translate_refusals
from .deliveries import DeliveringConnection


class ConsumerConnection:
    """A connection that consumes, until it or the last of its consumers is lost.

    It is never repaired: another one is opened. Nothing is published here: a broker under an
    alarm would stop reading our acks.
    """

    def __init__(
        self,
        connection: DeliveringConnection,
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        on_dropped: Callable[[], None],
        answer_timeout: float,
    ) -> None:
        """Nothing is consumed yet. *answer_timeout*, in seconds, bounds each of our questions.

        *prefetch* counts for each queue. *on_dropped* is called when there is something to clear.
        """
        self.lost = asyncio.Event()
        self.lost_by = "the connection was closed"
        self.has_dropped = False
        self._connection = connection
        self._prefetch = prefetch
        self._on_delivery = on_delivery
        self._on_dropped = on_dropped
        self._answer_timeout = answer_timeout
        self._consumers: dict[str, Consumer] = {}  # by queue
        self._dropped: list[tuple[Consumer, str]] = []  # with the reasons
        self._starting: str | None = None  # the queue whose refusal `consume` raises
        connection.close_callbacks.add(self._on_closing)

    @property
    def consuming(self) -> list[str]:
        """The queues that are consumed."""
        return [queue for queue, each in self._consumers.items() if each.is_consuming]

    def has(self, consumer: Consumer) -> bool:
        """Whether what this one delivers can still be settled."""
        return self._consumers.get(consumer.queue) is consumer

    async def consume(self, queue: str) -> None:
        """Begin to consume a queue.

        Raises:
            QueueRefused: the other queues are consumed as before.
            BrokerUnavailable: it did not work; the connection may be lost.
        """
        consumer = self._consumers.get(queue)
        if consumer is None:
            consumer = self._consumers[queue] = await self._open_consumer(queue)
        self._starting = queue
        try:
            await consumer.consume()
        except QueueRefused:
            consumer.detach()
            self._consumers.pop(queue, None)
            raise
        finally:
            self._starting = None

    async def clear_dropped(self) -> dict[str, str]:
        """Close the consumers that were lost while others live: each queue with its reason."""
        dropped, self._dropped = self._dropped, []
        for consumer, _ in dropped:
            with suppress(BrokerUnavailable):
                await consumer.close()
        return {consumer.queue: reason for consumer, reason in dropped}

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled."""
        with suppress(BrokerUnavailable):
            for consumer in list(self._consumers.values()):
                await consumer.cancel()

    async def check_liveness(self) -> None:
        """Ask the broker whether it still knows our consumers. One that it does not is dropped.

        Raises:
            BrokerUnavailable: it knows none, or does not answer.
        """
        if self.lost.is_set():
            raise BrokerUnavailable(self.lost_by)
        channel: AbstractChannel | None = None
        with translate_errors("proving that the consumers live"):
            for queue in self.consuming:
                # A channel of its own: asking for a queue that is gone costs the channel.
                if channel is None or channel.is_closed:
                    async with asyncio.timeout(self._answer_timeout):
                        channel = await self._connection.channel(publisher_confirms=False)
                await self._check_consumer(queue, channel)
            if channel is not None and not channel.is_closed:
                async with asyncio.timeout(self._answer_timeout):
                    await channel.close()
        if self.lost.is_set():
            raise BrokerUnavailable(self.lost_by)

    async def abandon(self) -> None:
        """End it when it is lost, or does not answer: without asking the broker anything."""
        for consumer in self._consumers.values():
            consumer.detach()
        await close_connection(self._connection)

    async def close(self) -> None:
        """End it. What was not settled goes back to the heads of its queues, in order."""
        consumers = list(self._consumers.values())
        for consumer in consumers:
            consumer.detach()
        with self._connection.farewell():
            await self.cancel()
            with suppress(BrokerUnavailable):
                for consumer in consumers:
                    await consumer.close()
            await close_connection(self._connection)

    async def _open_consumer(self, queue: str) -> Consumer:
        with translate_errors(f"opening a channel for {queue}"):
            async with asyncio.timeout(self._answer_timeout):
                channel = await self._connection.channel(publisher_confirms=False)
                await channel.set_qos(prefetch_count=self._prefetch)
                underlay = await channel.get_underlay_channel()
        return Consumer(
            self._connection,
            channel,
            underlay,
            queue,
            on_delivery=self._on_delivery,
            on_lost=self._on_lost,
            answer_timeout=self._answer_timeout,
        )

    async def _check_consumer(self, queue: str, channel: AbstractChannel) -> None:
        consumer = self._consumers.get(queue)
        reason: str | None = None
        try:
            with translate_refusals(f"proving that the consumer of {queue} lives"):
                found = await channel.declare_queue(
                    queue, passive=True, timeout=self._answer_timeout
                )
        except QueueRefused as error:
            reason = str(error)
        else:
            if not found.declaration_result.consumer_count:
                reason = f"the broker knows no consumer of {queue}"
        if reason is not None and consumer is not None and consumer.is_consuming:
            consumer.detach()
            self._on_lost(consumer, reason, True)  # noqa: FBT003

    def _on_lost(self, consumer: Consumer, reason: str, alone: bool) -> None:  # noqa: FBT001
        if not self.has(consumer) or (alone and consumer.queue == self._starting):
            return
        del self._consumers[consumer.queue]
        self._dropped.append((consumer, reason))
        self.has_dropped = self.has_dropped or alone
        if alone and self._consumers:
            self._on_dropped()
        else:
            self._lose(reason)

    def _on_closing(self, _connection: object, error: BaseException | None) -> None:
        self._lose(describe(error) if error is not None else "the connection was closed")

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.lost_by = reason
            self.lost.set()
