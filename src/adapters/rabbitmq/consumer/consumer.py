"""The consumer of one queue, on a channel of its own: a refusal costs that queue alone."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as Underlay
from pamqp.commands import Basic

from cronhare.ports.broker import BrokerUnavailable, Delivery

from ..connection.async_connection import translate_errors
from ..connection.errors import describe
from .deliveries import Acks, DeliveringConnection, Incoming


@attrs.frozen(eq=False)
class Tag:
    """What a delivery is settled with."""

    consumer: "Consumer"
    number: int


class QueueRefused(BrokerUnavailable):
    """The broker answers, and refuses this queue."""


#: Takes the consumer that was lost, the reason, and whether the loss is that queue's alone.
OnLost = Callable[["Consumer", str, bool], None]


class Consumer:
    """Consumes a queue until its channel is lost. It is never repaired: another one is opened.

    Deliveries and acks pass aio-pika by (ADR 4).
    """

    def __init__(
        self,
        connection: DeliveringConnection,
        channel: AbstractChannel,
        underlay: Underlay,
        queue: str,
        *,
        on_delivery: Callable[[Delivery], None],
        on_lost: OnLost,
        answer_timeout: float,
    ) -> None:
        """Nothing is consumed yet. *on_lost* is called once; *answer_timeout* is in seconds."""
        self.queue = queue
        self._connection = connection
        self._channel = channel
        self._number = underlay.number
        self._acks = Acks(self._ack)
        self._underlay = underlay
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._answer_timeout = answer_timeout
        self._name: str | None = None
        self._is_detached = False
        connection.receive(self._number, self._receive)
        channel.close_callbacks.add(self._on_closing)
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)  # aio-pika does not report it

    @property
    def is_consuming(self) -> bool:
        """Whether it was begun, and not cancelled since."""
        return self._name is not None

    async def consume(self) -> None:
        """Begin to consume.

        Raises:
            QueueRefused: the queue is gone, or exclusive to another.
            BrokerUnavailable: it did not work.
        """
        with translate_refusals(f"consuming {self.queue}"):
            answer = await self._underlay.basic_consume(
                self.queue, _unused, timeout=self._answer_timeout
            )
        self._name = str(answer.consumer_tag)

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled.

        Raises:
            BrokerUnavailable: the broker does not answer.
        """
        self._acks.flush()
        name, self._name = self._name, None
        if name is not None:
            with translate_errors(f"consuming {self.queue} no more"):
                queue = await self._channel.get_queue(self.queue, ensure=False)
                await queue.cancel(name, timeout=self._answer_timeout)

    def ack(self, number: int) -> None:
        """Settle a delivery. Once the channel is lost it comes again in any case."""
        self._acks.ack(number)

    def nack(self, number: int, *, requeue: bool) -> None:
        """Give a delivery back, or hand it to its queue's dead-letter exchange."""
        self._acks.given_back(number)
        if self._is_ours:
            self._connection.nack(self._number, number, multiple=False, requeue=requeue)

    async def close(self) -> None:
        """End its channel. What was not settled goes back to the head of the queue, in order.

        Raises:
            BrokerUnavailable: the broker does not answer.
        """
        self.detach()
        self._acks.flush()
        if self._is_ours:
            self._connection.nack(self._number, 0, multiple=True, requeue=True)
            self._connection.end(self._number)
        with translate_errors("closing a channel"):
            async with asyncio.timeout(self._answer_timeout):
                await self._channel.close()

    def detach(self) -> None:
        """Report no loss from now on."""
        self._is_detached = True

    def _receive(self, incoming: Incoming) -> None:
        self._acks.arrived(incoming.tag)
        message, defect = incoming.message()
        self._on_delivery(
            Delivery(
                message=message,
                queue=self.queue,
                redelivered=incoming.redelivered,
                tag=Tag(self, incoming.tag),
                defect=defect,
            )
        )

    def _ack(self, number: int, multiple: bool) -> None:  # noqa: FBT001
        if self._is_ours:
            self._connection.ack(self._number, number, multiple=multiple)

    @property
    def _is_ours(self) -> bool:
        return self._connection.is_of(self._number, self._receive)

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        """The broker cancels a consumer when its queue is deleted or moves to another node."""
        self._lose(f"the broker cancelled consumer {frame.consumer_tag}", alone=True)

    def _on_closing(self, _channel: object, error: BaseException | None) -> None:
        reason = describe(error) if error is not None else "the channel was closed"
        self._lose(reason, alone=isinstance(error, AMQPChannelError))

    def _lose(self, reason: str, *, alone: bool) -> None:
        if not self._is_detached:
            self.detach()
            self._on_lost(self, reason, alone)


async def _unused(_: object) -> None:
    """Stands for a consumer at the client, which is handed no delivery."""


@contextmanager
def translate_refusals(doing: str) -> Iterator[None]:
    """Turn aio-pika's errors into ours; one of the channel is `QueueRefused`."""
    try:
        with translate_errors(doing):
            yield
    except BrokerUnavailable as error:
        if isinstance(error.__cause__, AMQPChannelError):
            raise QueueRefused(str(error)) from error
        raise
