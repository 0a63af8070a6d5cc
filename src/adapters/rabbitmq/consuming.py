"""RabbitMQ's asynchronous side, through aiormq."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Self

from cronhare.domain.topology import MAIN_QUEUE, first_queue
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Published

from .address import Address
from .consumer import Tag
from .declaring import Difference
from .hookup import ANSWER_TIMEOUT
from .messages import packed
from .posting import Postman
from .subscription import PROOF_EVERY, Subscription
from .upkeep import Upkeep
from .versions import QUORUM

#: Seconds that a publish may take, connecting included.
PUBLISH_TIMEOUT = 10.0


class AiormqBroker:
    """Consumes and publishes for the worker, on one event loop. Satisfies `AsyncBrokerPort`.

    Each call of `consume` has a connection of its own, and publishing has another; they are made
    when they are needed, and again whenever they are lost. What was consumed before a loss is
    consumed after it.
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
        proof_every: float = PROOF_EVERY,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """*retry_delay* is how long a nacked message rests; the times below it are in seconds.

        The broker is asked for a sign of life every *proof_every*, and is taken for lost if it
        does not answer within *answer_timeout*.

        Raises:
            ValueError: the URL, the name of a queue or *queue_type* cannot be used.
        """
        self._address = Address.parse(url)
        self._upkeep = Upkeep(
            self._address,
            retry_delay=retry_delay,
            queues=queues,
            queue_type=queue_type,
            deduplication=deduplication,
        )
        self._proof_every = proof_every
        self._answer_timeout = answer_timeout
        self._postman = Postman(self._address, timeout=publish_timeout)
        self._subscriptions: list[Subscription] = []
        self._restoring = asyncio.Lock()
        self._closed = False

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What exists otherwise than we would declare it, as of the last declaration."""
        return self._upkeep.differences

    async def connect(self) -> Self:
        """Declare the topology now instead of with the first `consume`.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        await asyncio.to_thread(self._upkeep.declare)
        return self

    async def consume(
        self, queues: Sequence[str], *, prefetch: int, on_delivery: Callable[[Delivery], None]
    ) -> None:
        """Begin to hand out; a queue that nobody has declared yet is declared.

        *prefetch* counts over all these queues. A second call adds a consumer with its own.

        Raises:
            BrokerUnavailable: the broker is away, or has none of them for us, or this is closed.
            ValueError: *prefetch* is less than 1, or a queue cannot have that name.
        """
        if prefetch < 1:
            raise ValueError(f"a prefetch of {prefetch} would never deliver anything")
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        self._upkeep.want(queue for queue in queues if not self._upkeep.knows(queue))
        await self._drop_idle()
        subscription = Subscription(
            self._address,
            queues,
            prefetch=prefetch,
            on_delivery=on_delivery,
            declare=self._refresh,
            doubt=self._upkeep.doubt,
            proof_every=self._proof_every,
            answer_timeout=self._answer_timeout,
        )
        self._subscriptions.append(subscription)  # first: deliveries may be settled at once
        try:
            await subscription.start()
        except BaseException:
            if subscription in self._subscriptions:  # or we were closed meanwhile
                self._subscriptions.remove(subscription)
            raise

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""
        for subscription in self._subscriptions:
            await subscription.pause()

    async def publish(self, envelope: Envelope) -> Published:
        """Publish one message; `UNKNOWN` while the broker is away or after `close`.

        Raises:
            ValueError: it is larger than the broker takes, or its delay than the lanes carry.
            TypeError: AMQP could not carry its headers.
        """
        published = await self._postman.publish(packed(envelope))
        if published is Published.RETURNED:
            async with self._restoring:  # of many that came back together one declares
                await asyncio.to_thread(self._upkeep.restore, [first_queue(envelope.to)])
        return published

    async def ack(self, delivery: Delivery) -> None:
        """Settle a delivery of ours; any other is left alone, and comes again."""
        await self._settle(delivery, acked=True)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a delivery back (*requeue*), or hand it to its queue's dead-letter exchange."""
        await self._settle(delivery, acked=False, requeue=requeue)

    async def close(self) -> None:
        """Stop consuming. What was not settled goes back to its queue. Safe to repeat."""
        self._closed = True
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.close()
        await self._postman.close()

    async def _settle(self, delivery: Delivery, *, acked: bool, requeue: bool = False) -> None:
        tag = delivery.tag
        if isinstance(tag, Tag):
            for subscription in self._subscriptions:
                await subscription.settle(tag, acked=acked, requeue=requeue)

    async def _refresh(self) -> None:
        await asyncio.to_thread(self._upkeep.refresh)

    async def _drop_idle(self) -> None:
        for subscription in [each for each in self._subscriptions if each.is_idle]:
            self._subscriptions.remove(subscription)
            await subscription.close()
