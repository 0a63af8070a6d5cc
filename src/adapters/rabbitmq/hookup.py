"""One connection for consuming: its channel, its consumers, and the signs that it lives."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Self

import attrs
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from pamqp.commands import Basic

from cronhare.ports.broker import BrokerUnavailable, Delivery

from .address import Address
from .guarding import Guarding, received
from .linking import TROUBLE, close_connection, open_connection, own_errors
from .trouble import said_by

#: Seconds in which the broker must have answered a question.
ANSWER_TIMEOUT = 10.0


@attrs.frozen(eq=False)
class Tag:
    """What a delivery is settled by."""

    hookup: "Hookup"
    number: int


class Hookup:
    """A channel that consumes, until it is lost. It is never mended: another one takes its place.

    Nothing is published here: a broker under an alarm would stop reading our acks.
    """

    def __init__(
        self,
        connection: AbstractConnection,
        channel: AbstractChannel,
        on_delivery: Callable[[Delivery], Awaitable[None]],
        answer_timeout: float,
    ) -> None:
        """`open` makes one."""
        self._answer_timeout = answer_timeout
        self.lost = asyncio.Event()
        self.lost_by = "the channel was closed"
        self.was_cancelled = False
        self._connection = connection
        self._channel = channel
        self._on_delivery = on_delivery
        self._consumers: dict[str, str] = {}  # by queue
        channel.on_consumer_cancel_callbacks.add(self._on_cancel)
        channel.closing.add_done_callback(self._on_closing)

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], Awaitable[None]],
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> Self:
        """Connect; nothing is consumed yet. *answer_timeout*, in seconds, bounds each question.

        Raises:
            BrokerUnavailable: it did not work.
        """
        connection = await open_connection(address, name="cronhare consuming", transport=Guarding())
        try:
            with own_errors(f"opening a channel at {address}"):
                channel = await connection.channel(publisher_confirms=False, timeout=answer_timeout)
                await channel.basic_qos(prefetch_count=prefetch, timeout=answer_timeout)
                return cls(connection, channel, on_delivery, answer_timeout)
        except BaseException:
            await close_connection(connection)
            raise

    async def consume(self, queues: Sequence[str]) -> None:
        """Begin to consume.

        Raises:
            BrokerUnavailable: it did not work; the channel may be lost.
        """
        for queue in queues:
            with own_errors(f"consuming {queue}"):
                answer = await self._channel.basic_consume(
                    queue, self._receiver(queue), timeout=self._answer_timeout
                )
            self._consumers[queue] = str(answer.consumer_tag)

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled."""
        consumers, self._consumers = self._consumers, {}
        with suppress(BrokerUnavailable):
            for queue, tag in consumers.items():
                with own_errors(f"consuming {queue} no more"):
                    await self._channel.basic_cancel(tag, timeout=self._answer_timeout)

    async def prove(self) -> None:
        """Ask the broker whether it still knows our consumers.

        Raises:
            BrokerUnavailable: it does not, or does not answer.
        """
        if self.lost.is_set():
            raise BrokerUnavailable(self.lost_by)
        with own_errors("proving that the consumers live"):
            # Of its own: asking for a queue that is gone costs the channel.
            channel = await self._connection.channel(
                publisher_confirms=False, timeout=self._answer_timeout
            )
            for queue in list(self._consumers):
                found = await channel.queue_declare(
                    queue, passive=True, timeout=self._answer_timeout
                )
                if queue in self._consumers and not found.consumer_count:
                    raise BrokerUnavailable(f"the broker knows no consumer of {queue}")
            async with asyncio.timeout(self._answer_timeout):
                await channel.close()

    async def ack(self, number: int) -> None:
        """Settle a delivery. Once the channel is lost it comes again whatever we say."""
        with suppress(*TROUBLE):
            await self._channel.basic_ack(number, wait=False)

    async def nack(self, number: int, *, requeue: bool, multiple: bool = False) -> None:
        """Give a delivery back, or hand it to its queue's dead-letter exchange; 0: all of them."""
        with suppress(*TROUBLE):
            await self._channel.basic_nack(number, multiple=multiple, requeue=requeue, wait=False)

    async def abandon(self) -> None:
        """End it when it is lost, or cannot be believed: without asking the broker anything."""
        self._channel.on_consumer_cancel_callbacks.discard(self._on_cancel)
        await close_connection(self._connection)

    async def close(self) -> None:
        """End it. What was not settled goes back to the heads of its queues, in order."""
        self._channel.on_consumer_cancel_callbacks.discard(self._on_cancel)
        await self.cancel()
        await self.nack(0, multiple=True, requeue=True)
        with suppress(BrokerUnavailable), own_errors("closing a channel"):
            async with asyncio.timeout(self._answer_timeout):
                await self._channel.close()
        await close_connection(self._connection)

    def _receiver(self, queue: str) -> Callable[[DeliveredMessage], Coroutine[Any, Any, None]]:
        async def receive(message: DeliveredMessage) -> None:
            frame = message.delivery
            assert isinstance(frame, Basic.Deliver)
            understood, defect = received(message)
            await self._on_delivery(
                Delivery(
                    message=understood,
                    queue=queue,
                    redelivered=bool(frame.redelivered),
                    tag=Tag(self, int(frame.delivery_tag or 0)),
                    defect=defect,
                )
            )

        return receive

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        """The broker ends a consumer on its own when the queue is deleted or moves away."""
        self.was_cancelled = True
        self._lose(f"the broker cancelled consumer {frame.consumer_tag}")

    def _on_closing(self, future: asyncio.Future[object]) -> None:
        error = None if future.cancelled() else future.exception()
        self._lose(said_by(error) if error is not None else "the channel was closed")

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.lost_by = reason
            self.lost.set()
