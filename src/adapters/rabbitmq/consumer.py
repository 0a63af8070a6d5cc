"""The consumer of one queue, on a channel of its own, so that a refusal costs that queue alone.

Nothing is repaired: what is lost gives way to another. Nothing is published here, either: a broker
under an alarm would stop reading our acks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as Underlay
from pamqp.commands import Basic

from cronhare.domain.topology import FairQueueing
from cronhare.ports.broker import BrokerUnavailable, Delivery

from .client import ANSWER_TIMEOUT, describe
from .deliveries import Acks, DeliveringConnection, Incoming, translate_errors


class Consumer:
    """Consumes one queue until it is lost. Deliveries and acks pass aio-pika by (ADR 4)."""

    def __init__(
        self,
        connection: DeliveringConnection,
        channel: AbstractChannel,
        underlay: Underlay,
        queue: str,
        *,
        on_delivery: "Callable[[Consumer, Incoming], None]",
        on_lost: Callable[[], None],
    ) -> None:
        """Nothing is consumed yet. *on_lost* is called once, when it is lost."""
        self.queue = queue
        self.number = underlay.number
        self.acks = Acks(self._ack)
        self.lost_by: str | None = None
        self.is_lost_alone = False  # and not with its connection
        self.latest = 0  # the tag of the latest delivery
        self.passed_over: int | None = None  # that, when messages waited, and it had none
        self._connection = connection
        self._channel = channel
        self._underlay = underlay
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._name: str | None = None
        connection.begin(self)
        channel.close_callbacks.add(self._on_closing)
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)  # aio-pika does not report it

    @property
    def is_consuming(self) -> bool:
        return self._name is not None and self.lost_by is None

    async def consume(self) -> None:
        """Begin to consume.

        Raises:
            QueueRefused: the queue is gone, or exclusive to another.
            BrokerUnavailable: it did not work; the connection may be lost.
        """
        with self._asking(f"consuming {self.queue}"):
            answer = await self._underlay.basic_consume(self.queue, _unused, timeout=ANSWER_TIMEOUT)
        self._name = str(answer.consumer_tag)

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled.

        Raises:
            BrokerUnavailable: the broker does not answer.
        """
        self.acks.flush()
        name, self._name = self._name, None
        if name is not None:
            with self._asking(f"consuming {self.queue} no more"):
                await self._underlay.basic_cancel(name, timeout=ANSWER_TIMEOUT)

    def receive(self, incoming: Incoming) -> None:
        self.latest = incoming.tag
        self.acks.arrived(incoming.tag)
        self._on_delivery(self, incoming)

    def nack(self, number: int, *, requeue: bool) -> None:
        """Give a delivery back, or hand it to its queue's dead-letter exchange."""
        self.acks.given_back(number)
        self._connection.nack(self, number, requeue=requeue)

    async def close(self) -> None:
        """End its channel. What was not settled goes back to the head of the queue, in order."""
        self.acks.flush()
        self._connection.nack(self, 0, requeue=True)
        self._connection.end(self)
        with suppress(BrokerUnavailable), translate_errors("closing a channel"):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._channel.close()

    def lose(self, reason: str, *, alone: bool) -> None:
        """Note its loss."""
        if self.lost_by is None:
            self.lost_by, self.is_lost_alone = reason, alone
            self._on_lost()

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        try:
            with translate_errors(doing):
                yield
        except BaseException:
            # The client closes a channel on which it has no answer: an ack behind the close would
            # cost the connection.
            self._connection.end(self)
            raise

    def _ack(self, number: int, multiple: bool) -> None:  # noqa: FBT001
        self._connection.ack(self, number, multiple=multiple)

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        """The broker cancels a consumer when its queue is deleted or moves to another node."""
        self.lose(f"the broker cancelled consumer {frame.consumer_tag}", alone=True)

    def _on_closing(self, _channel: object, error: BaseException | None) -> None:
        reason = describe(error) if error is not None else "the channel was closed"
        self.lose(reason, alone=isinstance(error, AMQPChannelError))


async def open_consumer(
    connection: DeliveringConnection,
    queue: str,
    *,
    prefetch: int,
    on_delivery: Callable[[Consumer, Incoming], None],
    on_lost: Callable[[], None],
) -> Consumer:
    """Open a channel for a queue.

    Raises:
        BrokerUnavailable: it did not work.
    """
    with translate_errors(f"opening a channel for {queue}"):
        async with asyncio.timeout(ANSWER_TIMEOUT):
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=prefetch)
            underlay = await channel.get_underlay_channel()
    return Consumer(connection, channel, underlay, queue, on_delivery=on_delivery, on_lost=on_lost)


async def _unused(_: object) -> None:
    """Stands for a consumer at the client, which is handed no delivery."""


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
            queue = self._fair.order(self._surplus)[0]
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
