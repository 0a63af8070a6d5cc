"""Consumers: one connection, and on it a channel for each queue.

So a refusal costs that queue alone. Nothing is repaired: another connection is opened. Nothing is
published here, either: a broker under an alarm would stop reading our acks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import attrs
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as Underlay
from pamqp.commands import Basic

from cronhare.domain.topology import FairQueueing
from cronhare.ports.broker import BrokerUnavailable, Delivery

from .client import ANSWER_TIMEOUT, describe
from .deliveries import Acks, DeliveringConnection, Incoming, translate_errors


@attrs.frozen(eq=False)
class Tag:
    """What a delivery is settled with."""

    consumer: "Consumer"
    number: int

    def ack(self) -> None:
        """Ack it. Once its channel is lost the message comes again in any case."""
        self.consumer.acks.ack(self.number)

    def nack(self, *, requeue: bool) -> None:
        """Give it back, or hand it to its queue's dead-letter exchange."""
        self.consumer.nack(self.number, requeue=requeue)


class QueueRefused(BrokerUnavailable):
    """The broker answers, and refuses this queue."""


class Consumer:
    """The consumer of one queue. Deliveries and acks pass aio-pika by (ADR 4)."""

    def __init__(
        self,
        connection: DeliveringConnection,
        channel: AbstractChannel,
        underlay: Underlay,
        queue: str,
        *,
        on_delivery: Callable[[Delivery], None],
        on_lost: "Callable[[Consumer, str, bool], None]",
    ) -> None:
        """Nothing is consumed yet.

        *on_lost* is called once, with the reason, and whether the loss is this queue's alone.
        """
        self.queue = queue
        self.acks = Acks(self._ack)
        self._connection = connection
        self._channel = channel
        self._number = underlay.number
        self._underlay = underlay
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._name: str | None = None
        self._is_starting = self._is_detached = False
        connection.receive(self._number, self._receive)
        channel.close_callbacks.add(self._on_closing)
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)  # aio-pika does not report it

    @property
    def is_consuming(self) -> bool:
        return self._name is not None

    async def consume(self) -> None:
        """Begin to consume.

        Raises:
            QueueRefused: the queue is gone, or exclusive to another.
            BrokerUnavailable: it did not work.
        """
        self._is_starting = True
        try:
            with translate_refusals(f"consuming {self.queue}"):
                answer = await self._underlay.basic_consume(
                    self.queue, _unused, timeout=ANSWER_TIMEOUT
                )
        finally:
            self._is_starting = False
        self._name = str(answer.consumer_tag)

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled.

        Raises:
            BrokerUnavailable: the broker does not answer.
        """
        self.acks.flush()
        name, self._name = self._name, None
        if name is not None:
            with translate_errors(f"consuming {self.queue} no more"):
                await self._underlay.basic_cancel(name, timeout=ANSWER_TIMEOUT)

    def nack(self, number: int, *, requeue: bool) -> None:
        self.acks.given_back(number)
        if self._is_ours:
            self._connection.nack(self._number, number, multiple=False, requeue=requeue)

    async def close(self) -> None:
        """End its channel. What was not settled goes back to the head of the queue, in order."""
        self.detach()
        self.acks.flush()
        if self._is_ours:
            self._connection.nack(self._number, 0, multiple=True, requeue=True)
            self._connection.end(self._number)
        with suppress(BrokerUnavailable), translate_errors("closing a channel"):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._channel.close()

    def detach(self) -> None:
        """Report no loss from now on."""
        self._is_detached = True

    def lose(self, reason: str, *, alone: bool) -> None:
        """Report its loss; a refusal of `consume` is raised there."""
        if not self._is_detached and not (alone and self._is_starting):
            self.detach()
            self._on_lost(self, reason, alone)

    @property
    def _is_ours(self) -> bool:
        return self._connection.is_of(self._number, self._receive)

    def _ack(self, number: int, multiple: bool) -> None:  # noqa: FBT001
        if self._is_ours:
            self._connection.ack(self._number, number, multiple=multiple)

    def _receive(self, incoming: Incoming) -> None:
        self.acks.arrived(incoming.tag)
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

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        """The broker cancels a consumer when its queue is deleted or moves to another node."""
        self.lose(f"the broker cancelled consumer {frame.consumer_tag}", alone=True)

    def _on_closing(self, _channel: object, error: BaseException | None) -> None:
        reason = describe(error) if error is not None else "the channel was closed"
        self.lose(reason, alone=isinstance(error, AMQPChannelError))


class ConsumerConnection:
    """A connection that consumes, until it or the last of its consumers is lost."""

    def __init__(
        self,
        connection: DeliveringConnection,
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        on_dropped: Callable[[], None],
    ) -> None:
        """Nothing is consumed yet. *prefetch* counts for each queue.

        *on_dropped* is called when a queue was lost by itself.
        """
        self.lost = asyncio.Event()
        self.lost_by = "the connection was closed"
        self._connection = connection
        self._prefetch = prefetch
        self._on_delivery = on_delivery
        self._on_dropped = on_dropped
        self._asking: AbstractChannel | None = None
        self._consumers: dict[str, Consumer] = {}  # by queue
        self._dropped: list[tuple[Consumer, str]] = []  # with the reasons
        connection.close_callbacks.add(self._on_closing)

    @property
    def consuming(self) -> list[str]:
        return [queue for queue, each in self._consumers.items() if each.is_consuming]

    def has(self, tag: Tag) -> bool:
        """Whether what has this tag can still be settled."""
        return self._consumers.get(tag.consumer.queue) is tag.consumer

    async def consume(self, queue: str) -> None:
        """Begin to consume a queue.

        Raises:
            QueueRefused: the other queues are consumed as before.
            BrokerUnavailable: it did not work; the connection may be lost.
        """
        consumer = self._consumers.get(queue) or await self._open(queue)
        try:
            await consumer.consume()
        except QueueRefused:
            consumer.detach()
            self._consumers.pop(queue, None)
            raise

    async def clear_dropped(self) -> dict[str, str]:
        """Close the consumers that were lost while others live: each queue with its reason."""
        dropped, self._dropped = self._dropped, []
        for consumer, _ in dropped:
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
        for queue in self.consuming:
            reason = await self._why_dead(queue)
            consumer = self._consumers.get(queue)
            if reason is not None and consumer is not None and consumer.is_consuming:
                consumer.lose(reason, alone=True)
        if self.lost.is_set():
            raise BrokerUnavailable(self.lost_by)

    async def abandon(self) -> None:
        """End it when it is lost, or does not answer: without asking the broker anything."""
        for consumer in self._consumers.values():
            consumer.detach()
        await self._connection.close()

    async def close(self) -> None:
        """End it. What was not settled goes back to the heads of its queues, in order."""
        consumers = list(self._consumers.values())
        for consumer in consumers:
            consumer.detach()
        with self._connection.farewell():
            await self.cancel()
            for consumer in consumers:
                await consumer.close()
            await self._connection.close()

    async def _open(self, queue: str) -> Consumer:
        with translate_errors(f"opening a channel for {queue}"):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                channel = await self._connection.channel(publisher_confirms=False)
                await channel.set_qos(prefetch_count=self._prefetch)
                underlay = await channel.get_underlay_channel()
        consumer = self._consumers[queue] = Consumer(
            self._connection,
            channel,
            underlay,
            queue,
            on_delivery=self._on_delivery,
            on_lost=self._on_lost,
        )
        return consumer

    async def _why_dead(self, queue: str) -> str | None:
        """Ask on a channel kept for that: for a queue that is gone it costs the channel."""
        try:
            with translate_refusals(f"proving that the consumer of {queue} lives"):
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    if self._asking is None or self._asking.is_closed:
                        self._asking = await self._connection.channel(publisher_confirms=False)
                    found = await self._asking.declare_queue(queue, passive=True)
        except QueueRefused as error:
            return str(error)
        is_known = bool(found.declaration_result.consumer_count)
        return None if is_known else f"the broker knows no consumer of {queue}"

    def _on_lost(self, consumer: Consumer, reason: str, alone: bool) -> None:  # noqa: FBT001
        if self._consumers.get(consumer.queue) is not consumer:
            return
        del self._consumers[consumer.queue]
        self._dropped.append((consumer, reason))
        if alone:
            self._on_dropped()
        if not (alone and self._consumers):
            self._lose(reason)

    def _on_closing(self, _connection: object, error: BaseException | None) -> None:
        self._lose(describe(error) if error is not None else "the connection was closed")

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.lost_by = reason
            self.lost.set()


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


class PrefetchLimiter:
    """Hands over at most *limit* unsettled deliveries at a time, over all queues. No I/O here.

    RabbitMQ counts a prefetch for each queue's consumer; a channel-wide one works with classic
    queues only, and is deprecated. And after a reconnect the broker does not count what is still
    worked on. So we count, and hold back the surplus: it is handed over as places become free, its
    queues served by their weights, or given back before it has kept others waiting for long.
    """

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
        # By queue, of those that have some; each with the time since when it is held back.
        self._surplus: dict[str, deque[tuple[float, Delivery]]] = {}

    @property
    def has_room(self) -> bool:
        return len(self._in_hand) < self._limit

    @property
    def has_some(self) -> bool:
        return bool(self._in_hand)

    @property
    def held_since(self) -> float | None:
        """Since when the oldest of the surplus has been held back."""
        return min((held[0][0] for held in self._surplus.values()), default=None)

    def offer(self, delivery: Delivery) -> None:
        """Hand a delivery over if there is room, or hold it back."""
        if self.has_room and not self._surplus:
            self._give(delivery)
        else:
            self._surplus.setdefault(delivery.queue, deque()).append((self._now(), delivery))

    def settle(self, tag: object) -> bool:
        """Make room; False for a tag that is not in hand, or not any more."""
        if tag not in self._in_hand:
            return False
        self._in_hand.discard(tag)
        while self._surplus and self.has_room:
            queue = self._fair.next(self._surplus)
            _, delivery = self._surplus[queue].popleft()
            if not self._surplus[queue]:
                del self._surplus[queue]
            self._give(delivery)
        return True

    def take_back(self) -> list[Delivery]:
        """Give the surplus, the oldest first, and hold it no more."""
        surplus = [held for queue in self._surplus.values() for held in queue]
        self._surplus.clear()
        return [delivery for _, delivery in sorted(surplus, key=lambda held: held[0])]

    def _give(self, delivery: Delivery) -> None:
        self._in_hand.add(delivery.tag)
        self._fair.serve(delivery.queue)
        self._hand_over(delivery)
