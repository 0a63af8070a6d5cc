"""The consumer of one queue, on a channel of its own: a refusal costs that queue alone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

import attrs
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as Underlay
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.errors import said_by
from ..connection.framed import FramedConnection
from ..connection.linking import TROUBLE, translate_errors
from .guarding import received


@attrs.frozen(eq=False)
class Tag:
    """What a delivery is settled by."""

    consumer: "Consumer"
    number: int


class QueueRefused(BrokerUnavailable):
    """The broker answers, and does not let us have this queue."""


#: Is told which consumer was lost, why, and whether the loss is that queue's alone.
OnLost = Callable[["Consumer", str, bool], None]


class Consumer:
    """Consumes a queue until its channel is lost. It is never mended: another takes its place.

    What is done for each delivery is done on the channel beneath aio-pika's (ADR 41).
    """

    def __init__(
        self,
        channel: AbstractChannel,
        underlay: Underlay,
        queue: str,
        *,
        on_delivery: Callable[[Delivery], Awaitable[None]],
        on_lost: OnLost,
        answer_timeout: float,
    ) -> None:
        """`open` makes one."""
        self.queue = queue
        self._channel = channel
        self._underlay = underlay
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._answer_timeout = answer_timeout
        self._name: str | None = None
        self._is_left = False
        channel.close_callbacks.add(self._on_closing)
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)  # aio-pika tells nobody

    @classmethod
    async def open(
        cls,
        connection: FramedConnection,
        queue: str,
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], Awaitable[None]],
        on_lost: OnLost,
        answer_timeout: float,
    ) -> Self:
        """Open its channel; nothing is consumed yet. *on_lost* is told once.

        Raises:
            BrokerUnavailable: it did not work.
        """
        with translate_errors(f"opening a channel for {queue}"):
            async with asyncio.timeout(answer_timeout):
                channel = await connection.channel(publisher_confirms=False)
                await channel.set_qos(prefetch_count=prefetch)
                underlay = await channel.get_underlay_channel()
        return cls(
            channel,
            underlay,
            queue,
            on_delivery=on_delivery,
            on_lost=on_lost,
            answer_timeout=answer_timeout,
        )

    @property
    def is_consuming(self) -> bool:
        """Whether it was begun, and not cancelled since."""
        return self._name is not None

    async def consume(self) -> None:
        """Begin.

        Raises:
            QueueRefused: the queue is gone, or somebody else's.
            BrokerUnavailable: it did not work.
        """
        with refusals(f"consuming {self.queue}"):
            answer = await self._underlay.basic_consume(
                self.queue, self._receive, timeout=self._answer_timeout
            )
        self._name = str(answer.consumer_tag)

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled.

        Raises:
            BrokerUnavailable: the broker does not say that it heard us.
        """
        name, self._name = self._name, None
        if name is not None:
            with translate_errors(f"consuming {self.queue} no more"):
                queue = await self._channel.get_queue(self.queue, ensure=False)
                await queue.cancel(name, timeout=self._answer_timeout)

    async def ack(self, number: int) -> None:
        """Settle a delivery. Once the channel is lost it comes again whatever we say."""
        with suppress(*TROUBLE):
            await self._underlay.basic_ack(number, wait=False)

    async def nack(self, number: int, *, requeue: bool, multiple: bool = False) -> None:
        """Give a delivery back, or hand it to its queue's dead-letter exchange; 0: all of them."""
        with suppress(*TROUBLE):
            await self._underlay.basic_nack(number, multiple=multiple, requeue=requeue, wait=False)

    async def close(self) -> None:
        """End its channel. What was not settled goes back to the head of the queue, in order.

        Raises:
            BrokerUnavailable: the broker does not say that it heard us.
        """
        self.leave()
        await self.nack(0, multiple=True, requeue=True)
        with translate_errors("closing a channel"):
            async with asyncio.timeout(self._answer_timeout):
                await self._channel.close()

    def leave(self) -> None:
        """Tell of no loss from now on."""
        self._is_left = True

    async def _receive(self, message: DeliveredMessage) -> None:
        frame = message.delivery
        assert isinstance(frame, Basic.Deliver)
        understood, defect = received(message)
        await self._on_delivery(
            Delivery(
                message=understood,
                queue=self.queue,
                redelivered=bool(frame.redelivered),
                tag=Tag(self, int(frame.delivery_tag or 0)),
                defect=defect,
            )
        )

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        """The broker ends a consumer on its own when the queue is deleted or moves away."""
        self._lose(f"the broker cancelled consumer {frame.consumer_tag}", alone=True)

    def _on_closing(self, _channel: object, error: BaseException | None) -> None:
        reason = said_by(error) if error is not None else "the channel was closed"
        self._lose(reason, alone=isinstance(error, AMQPChannelError))

    def _lose(self, reason: str, *, alone: bool) -> None:
        if not self._is_left:
            self.leave()
            self._on_lost(self, reason, alone)


@contextmanager
def refusals(doing: str) -> Iterator[None]:
    """Turn the client's errors into ours, and tell a queue's trouble from the connection's."""
    try:
        with translate_errors(doing):
            yield
    except BrokerUnavailable as error:
        if isinstance(error.__cause__, AMQPChannelError):
            raise QueueRefused(str(error)) from error
        raise
