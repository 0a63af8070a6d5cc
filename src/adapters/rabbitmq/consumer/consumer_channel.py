"""One connection for consuming: its consumers, and the signs that they live."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from aio_pika.abc import AbstractChannel

from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.address import Address
from ..connection.errors import said_by
from ..connection.framed import FramedConnection
from ..connection.linking import ANSWER_TIMEOUT, close_connection, open_connection, translate_errors
from .consumer import Consumer, QueueRefused, refusals
from .guarding import GuardedConnection


class ConsumerChannel:
    """A connection that consumes, until it or the last of its consumers is lost.

    It is never mended: another one takes its place. Nothing is published here: a broker under an
    alarm would stop reading our acks.
    """

    def __init__(
        self,
        connection: FramedConnection,
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], Awaitable[None]],
        on_dropped: Callable[[], None],
        answer_timeout: float,
    ) -> None:
        """`open` makes one."""
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
        self._beginning: str | None = None  # the queue whose refusal `consume` tells
        connection.close_callbacks.add(self._on_closing)

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], Awaitable[None]],
        on_dropped: Callable[[], None],
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> Self:
        """Connect; nothing is consumed yet. *answer_timeout*, in seconds, bounds each question.

        *prefetch* counts for each queue. *on_dropped* is told when there is something to clear.

        Raises:
            BrokerUnavailable: it did not work.
        """
        connection = await open_connection(
            address, name="cronhare consuming", kind=GuardedConnection
        )
        return cls(
            connection,
            prefetch=prefetch,
            on_delivery=on_delivery,
            on_dropped=on_dropped,
            answer_timeout=answer_timeout,
        )

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
            consumer = self._consumers[queue] = await Consumer.open(
                self._connection,
                queue,
                prefetch=self._prefetch,
                on_delivery=self._on_delivery,
                on_lost=self._on_lost,
                answer_timeout=self._answer_timeout,
            )
        self._beginning = queue
        try:
            await consumer.consume()
        except QueueRefused:
            consumer.leave()
            self._consumers.pop(queue, None)
            raise
        finally:
            self._beginning = None

    async def clear_dropped(self) -> dict[str, str]:
        """Let go of the consumers that were lost while others live: each queue with its reason."""
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

    async def prove(self) -> None:
        """Ask the broker whether it still knows our consumers. One that it does not is dropped.

        Raises:
            BrokerUnavailable: it knows none, or does not answer.
        """
        if self.lost.is_set():
            raise BrokerUnavailable(self.lost_by)
        channel: AbstractChannel | None = None
        for queue in self.consuming:
            # Of its own: asking for a queue that is gone costs the channel.
            if channel is None or channel.is_closed:
                channel = await self._asking()
            await self._prove(queue, channel)
        if channel is not None and not channel.is_closed:
            with translate_errors("proving that the consumers live"):
                async with asyncio.timeout(self._answer_timeout):
                    await channel.close()
        if self.lost.is_set():
            raise BrokerUnavailable(self.lost_by)

    async def abandon(self) -> None:
        """End it when it is lost, or cannot be believed: without asking the broker anything."""
        for consumer in self._consumers.values():
            consumer.leave()
        await close_connection(self._connection)

    async def close(self) -> None:
        """End it. What was not settled goes back to the heads of its queues, in order."""
        consumers = list(self._consumers.values())
        for consumer in consumers:
            consumer.leave()
        await self.cancel()
        with suppress(BrokerUnavailable):
            for consumer in consumers:
                await consumer.close()
        await close_connection(self._connection)

    async def _asking(self) -> AbstractChannel:
        with translate_errors("proving that the consumers live"):
            async with asyncio.timeout(self._answer_timeout):
                return await self._connection.channel(publisher_confirms=False)

    async def _prove(self, queue: str, channel: AbstractChannel) -> None:
        consumer = self._consumers.get(queue)
        reason: str | None = None
        try:
            with refusals(f"proving that the consumer of {queue} lives"):
                found = await channel.declare_queue(
                    queue, passive=True, timeout=self._answer_timeout
                )
        except QueueRefused as error:
            reason = str(error)
        else:
            if not found.declaration_result.consumer_count:
                reason = f"the broker knows no consumer of {queue}"
        if reason is not None and consumer is not None and consumer.is_consuming:
            consumer.leave()
            self._on_lost(consumer, reason, True)  # noqa: FBT003

    def _on_lost(self, consumer: Consumer, reason: str, alone: bool) -> None:  # noqa: FBT001
        if not self.has(consumer) or (alone and consumer.queue == self._beginning):
            return
        del self._consumers[consumer.queue]
        self._dropped.append((consumer, reason))
        self.has_dropped = self.has_dropped or alone
        if alone and self._consumers:
            self._on_dropped()
        else:
            self._lose(reason)

    def _on_closing(self, _connection: object, error: BaseException | None) -> None:
        self._lose(said_by(error) if error is not None else "the connection was closed")

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.lost_by = reason
            self.lost.set()
