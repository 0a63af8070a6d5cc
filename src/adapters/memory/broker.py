"""A broker in this process, with RabbitMQ's manners and on our clock: `cronhare up` runs on it."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution
from cronhare.domain.topology import MAIN_QUEUE, FairQueueing, Topology, topology
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Published
from cronhare.ports.inspection import InMemory
from cronhare.ports.system import ClockPort

from .deliveries import Consumer, Session
from .engine import Engine


class MemoryBroker:
    """Carries messages between the threads and loops of one process. Satisfies `BrokerPort`.

    `connect` makes the asynchronous connections to it. The topology for *queues* is declared from
    the start. Messages live as long as this object: the ledger brings back what was under way.
    Like RabbitMQ it delivers at least once.
    """

    def __init__(
        self,
        clock: ClockPort,
        *,
        retry_delay: timedelta = timedelta(seconds=30),
        queues: Iterable[str] = (MAIN_QUEUE,),
    ) -> None:
        self._engine = Engine(clock)
        self._retry_delay = retry_delay
        self.declare(queues)

    def connect(self) -> "MemoryConnection":
        return MemoryConnection(self._engine, declare=self.declare)

    def declare(self, queues: Iterable[str]) -> None:
        self._engine.declare(topology(retry_delay=self._retry_delay, queues=queues))

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        return self._engine.publish(batch)

    def is_reachable(self) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to let go of."""

    def depth(self, queue: str) -> int:
        """Count the messages that wait in a queue, without those that are delivered."""
        with self._engine.turn():
            known = self._engine.queues.get(queue)
            return 0 if known is None else len(known.ready)


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
        self._consume(queues, prefetch, on_delivery, weights or {})

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        if queue not in self._apart:
            self._apart[queue] = self._consume([queue], 1, on_delivery, {})

    async def leave(self, queue: str) -> None:
        consumer = self._apart.pop(queue, None)
        if consumer is not None:
            with self._engine.turn():
                self._engine.deliveries.leave(consumer)

    def is_consuming(self) -> bool:
        with self._engine.turn():
            return bool(self._session.consumers)

    def left_out(self) -> Collection[str]:
        return ()

    async def pause(self) -> None:
        with self._engine.turn():
            self._engine.deliveries.pause(self._session)
        self._set_timer()

    async def resume(self) -> None:
        with self._engine.turn():
            self._engine.deliveries.resume(self._session)

    async def publish(self, envelope: Envelope) -> Published:
        if self._closed:
            return Published.UNKNOWN
        [published] = self._engine.publish([envelope])
        return published

    async def ack(self, delivery: Delivery) -> None:
        self._engine.ack(self._session, delivery.tag)

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        self._engine.nack(self._session, delivery.tag, requeue=requeue)

    async def close(self) -> None:
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
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        declared = self._engine.queues
        if missing := [name for name in queues if name not in declared]:
            self._declare(missing)
        self._loop = asyncio.get_running_loop()
        with self._engine.turn():
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
        while (deliver := self._engine.next_delivery(self._session)) is not None:
            deliver()
        self._set_timer()

    def _set_timer(self) -> None:
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


class SilentBell:
    """Leaves what is claimed to a scheduler's next look. Satisfies `BellPort`.

    So it is where neither a broker nor a `cronhare up` on a ledger's file can be told.
    """

    head_start = timedelta(0)

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `BellPort.ring`."""


class MemoryInspection:
    """Satisfies `BrokerInspectionPort`."""

    def inspect(self, topology: Topology) -> InMemory:  # noqa: ARG002 - the port's
        return InMemory()

    def probe(self) -> InMemory:
        return InMemory()
