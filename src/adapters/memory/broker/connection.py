"""A worker's connection to the in-memory broker: it delivers on the worker's own loop."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from cronhare.domain.queueing.fair_queueing import FairQueueing
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Published

from .engine import Engine
from .messages import routed_copy
from .sessions import Consumer, Session


class MemoryConnection:
    """One connection of one event loop. Satisfies `AsyncBrokerPort`; `MemoryBroker` makes it.

    A loop that was closed with its connection still open counts as a client that vanished.
    """

    def __init__(self, engine: Engine, *, declare: Callable[[Iterable[str]], None]) -> None:
        self._engine = engine
        self._declare = declare
        self._session = Session(wake=self._wake)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._apart: dict[str, Consumer] = {}
        with engine.turn():
            engine.deliveries.open(self._session)

    async def consume(
        self,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """Begin to deliver; a queue that is missing is declared.

        *prefetch* counts over all these queues. A second call adds a consumer with its own.

        Raises:
            BrokerUnavailable: the broker is away, or this connection is closed.
            ValueError: *prefetch* is less than 1.
        """
        self._consume(queues, prefetch, on_delivery, weights or {})

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        """See `AsyncBrokerPort.consume_apart`.

        Raises:
            BrokerUnavailable: the broker is away, or this connection is closed.
        """
        if queue not in self._apart:
            self._apart[queue] = self._consume([queue], 1, on_delivery, {})

    async def leave(self, queue: str) -> None:
        consumer = self._apart.pop(queue, None)
        if consumer is not None:
            with self._engine.turn():
                self._engine.deliveries.leave(consumer)

    def is_consuming(self) -> bool:
        """Whether it consumes, and the broker is there."""
        with self._engine.turn():
            return bool(self._session.consumers) and not self._engine.deliveries.away

    def left_out(self) -> Collection[str]:
        """Name none: it refuses no queue."""
        return ()

    async def pause(self) -> None:
        """Take no more deliveries. Those that are unsettled can still be settled."""
        with self._engine.turn():
            self._engine.deliveries.pause(self._session)
        self._set_timer()

    async def resume(self) -> None:
        """Take deliveries again, as before `pause`."""
        with self._engine.visit():
            self._engine.deliveries.resume(self._session)

    async def publish(self, envelope: Envelope) -> Published:
        """Publish one message; `UNKNOWN` while the broker is away or after `close`.

        Raises:
            ValueError: it is larger than the broker takes, or its delay than the lanes carry.
            TypeError: AMQP could not carry its headers.
        """
        if self._closed:
            routed_copy(envelope)  # to raise all the same
            return Published.UNKNOWN
        [published] = self._engine.publish([envelope])
        return published

    async def ack(self, delivery: Delivery) -> None:
        """Settle a delivery of this connection; any other is left alone, and comes again."""
        self._engine.ack(self._session, delivery.tag)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a delivery back (*requeue*), or to its queue's dead-letter exchange."""
        self._engine.nack(self._session, delivery.tag, requeue=requeue)

    async def close(self) -> None:
        """Stop consuming. What was not settled goes back to its queue. Safe to repeat."""
        self._closed = True
        with self._engine.turn():
            self._engine.deliveries.close(self._session)
        self._set_timer()

    def _consume(
        self,
        queues: Sequence[str],
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int],
    ) -> Consumer:
        if prefetch < 1:
            raise ValueError(f"a prefetch of {prefetch} would never deliver anything")
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        declared = self._engine.topology.queues
        if missing := [name for name in queues if name not in declared]:
            self._declare(missing)
        self._loop = asyncio.get_running_loop()
        with self._engine.visit():
            consumer = Consumer(
                session=self._session,
                queues={name: declared[name] for name in queues},
                fair=FairQueueing(weights),
                prefetch=prefetch,
                on_delivery=on_delivery,
            )
            self._engine.deliveries.consume(consumer)
        return consumer

    def _wake(self) -> bool:
        """Have the loop read the inbox. Called in any thread, inside a turn."""
        if self._loop is None:
            return True
        if not self._woken and not self._loop.is_closed():
            self._woken = True  # first: the loop may run at once
            with suppress(RuntimeError):  # it was closed just now
                self._loop.call_soon_threadsafe(self._drain_inbox)
        self._closed = self._closed or self._loop.is_closed()
        return not self._loop.is_closed()

    def _drain_inbox(self) -> None:
        self._woken = False
        try:
            while (deliver := self._engine.next_delivery(self._session)) is not None:
                deliver()
        finally:  # a handler that raised must not stop later deliveries
            if self._session.inbox:
                self._wake()
        self._set_timer()

    def _set_timer(self) -> None:
        """Wake when the next message expires, if this connection consumes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._engine.turn():
            wait = self._engine.until_next_expiry()
        if self._loop is not None and self._session.consumers and wait is not None:
            self._timer = self._loop.call_later(
                wait.total_seconds(), self._on_timer, self._engine.stopwatch()
            )

    def _on_timer(self, set_at: float) -> None:
        self._engine.catch_up()
        if self._engine.stopwatch() != set_at:  # a frozen clock reports its jumps itself
            self._set_timer()
