"""RabbitMQ's asynchronous side, for the worker: aio-pika consumes, pika's thread publishes."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from cronhare.application.logs import say
from cronhare.domain.nodes import DISCONNECTING
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Published

from .broker import PikaBroker
from .subscription import Subscription, Tag, in_thread

log = logging.getLogger(__name__)


class AioPikaBroker:
    """Consumes and publishes for the worker, on one event loop. Satisfies `AsyncBrokerPort`.

    Each call of `consume` or `consume_apart` has a connection of its own, and publishing has
    another; they are opened when they are needed, and again whenever they are lost. What was
    consumed before a loss is consumed after it.
    """

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401 - as `PikaBroker`'s
        """*options* are those of `PikaBroker`, which publishes.

        Raises:
            ValueError: the URL, the name of a queue or *queue_type* cannot be used.
        """
        # The consumers log what becomes of the broker.
        self._broker = PikaBroker(url, level=logging.DEBUG, **options)
        self._subscriptions: list[Subscription] = []
        self._apart: dict[str, Subscription] = {}  # by their queues
        self._closed = False

    async def consume(
        self,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        subscription = self._subscribe(
            queues, weights=weights or {}, prefetch=prefetch, on_delivery=on_delivery
        )
        try:
            await subscription.start()
        except BaseException:
            self._forget(subscription)
            raise

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        if queue not in self._apart:
            self._apart[queue] = self._subscribe(
                [queue], weights={}, prefetch=1, on_delivery=on_delivery, is_apart=True
            )
            self._apart[queue].resume()

    async def leave(self, queue: str) -> None:
        subscription = self._apart.pop(queue, None)
        if subscription is not None:
            await subscription.end()
            self._forget(subscription)

    def is_consuming(self) -> bool:
        wanted = [each for each in self._subscriptions if each.is_wanted and not each.is_apart]
        return bool(wanted) and all(each.is_live for each in wanted)

    def left_out(self) -> Collection[str]:
        return {queue for each in self._subscriptions for queue in each.left_out}

    async def pause(self) -> None:
        await asyncio.gather(*(each.pause() for each in self._subscriptions))

    async def resume(self) -> None:
        for subscription in self._subscriptions:
            subscription.resume()

    async def ack(self, delivery: Delivery) -> None:
        if isinstance(delivery.tag, Tag):
            delivery.tag.subscription.settle(delivery.tag, acked=True)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        if isinstance(delivery.tag, Tag):
            delivery.tag.subscription.settle(delivery.tag, acked=False, requeue=requeue)

    async def publish(self, envelope: Envelope) -> Published:
        batch, within = self._broker.submit([envelope])
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await asyncio.wrap_future(batch.done)
        finally:
            [published] = batch.outcomes()
        name = envelope.message.id or "(no id)"
        if published is Published.RETURNED:
            await in_thread(partial(self._broker.restore, [envelope], [published]))
        elif published is Published.REFUSED:
            text = f"A queue took no message {name}: it is full, hangs, or has no master"
            say(log, logging.WARNING, "publish.refused", text)
        elif published is Published.UNKNOWN:
            text = f"It is unknown whether message {name} arrived: {self._broker.why_away}"
            say(log, logging.WARNING, "publish.unknown", text)
        return published

    async def close(self) -> None:
        """Stop consuming. What was not settled goes back to its queue. Safe to repeat.

        It takes at most `DISCONNECTING`, whatever the broker does: that is hung up on then.
        """
        self._closed = True
        subscriptions, self._subscriptions = self._subscriptions, []
        closing = [in_thread(self._broker.close), *(each.close() for each in subscriptions)]
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCONNECTING):
                await asyncio.gather(*closing)

    def _subscribe(self, queues: Sequence[str], **how: Any) -> Subscription:  # noqa: ANN401 - its
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        declarer = self._broker.declarer
        declarer.add_queues(queue for queue in queues if not declarer.includes(queue))
        subscription = Subscription(self._broker.address, queues, declarer=declarer, **how)
        self._subscriptions.append(subscription)  # it may be paused or closed while it starts
        return subscription

    def _forget(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:  # else it was closed meanwhile
            self._subscriptions.remove(subscription)
