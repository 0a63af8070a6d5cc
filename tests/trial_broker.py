"""A `MemoryBroker` whose queues can be read, message by message, and that can be hurt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from cronhare.adapters.memory.broker import MemoryBroker, MemoryConnection
from cronhare.adapters.memory.deliveries import Session
from cronhare.adapters.memory.engine import Engine
from cronhare.adapters.memory.queues import MemoryQueue
from cronhare.domain.topology import MAIN_QUEUE, Queue
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Published
from cronhare.ports.system import ClockPort


class TrialBroker(MemoryBroker):
    """Satisfies `ReadableBroker`. `go_away` and `come_back`, and `drop_all`, are its faults."""

    def __init__(
        self,
        clock: ClockPort,
        *,
        retry_delay: timedelta = timedelta(seconds=30),
        queues: Iterable[str] = (MAIN_QUEUE,),
    ) -> None:
        self.is_away = False
        #: The clients that consumed as it went away.
        self.cut: dict[Session, None] = {}
        super().__init__(clock, retry_delay=retry_delay, queues=queues)
        self._session = Session(wake=lambda: True)
        with self._engine.turn():
            self._engine.deliveries.open(self._session)

    def connect(self) -> "TrialConnection":
        return TrialConnection(self, self._engine)

    def declare(self, queues: Iterable[str]) -> None:
        self.must_be_there()
        super().declare(queues)

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        return [Published.UNKNOWN] * len(batch) if self.is_away else super().publish(batch)

    def is_reachable(self) -> bool:
        return not self.is_away

    def receive(self, queue: str) -> Delivery | None:
        self.must_be_there()
        with self._engine.turn():
            known = self._engine.queues.get(queue)
            if known is None or not known.ready:
                return None
            return self._engine.deliveries.deliver(self._session, known, None)

    def ack(self, delivery: Delivery) -> None:
        self._engine.ack(self._session, delivery.tag)

    def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        self._engine.nack(self._session, delivery.tag, requeue=requeue)

    def close(self) -> None:
        with self._engine.turn():
            self._engine.deliveries.disconnect(self._session)

    def must_be_there(self) -> None:
        if self.is_away:
            raise BrokerUnavailable("the broker is away")

    def go_away(self) -> None:
        """Be unreachable, as when the network fails.

        Connections break: unsettled messages are requeued, and settling them later does nothing.
        What is published is `UNKNOWN` and does not arrive. Queued messages still expire.
        """
        self.is_away = True
        with self._engine.turn():
            for session in self._engine.deliveries.sessions:
                if session.consumers:
                    self.cut[session] = None
            for session in self._engine.deliveries.sessions:
                self._engine.deliveries.disconnect(session)

    def come_back(self) -> None:
        """Be reachable again. Connections that consumed go on, as if they had reconnected."""
        self.is_away = False
        with self._engine.turn():
            for session in self.cut:
                self._engine.deliveries.resume(session)
            self.cut.clear()

    def drop_all(self) -> None:
        """Lose every message, as a broker whose disk was replaced. Queues and consumers stay.

        What is delivered can still be worked on, but is not requeued.
        """
        nowhere = MemoryQueue(Queue(name="nowhere"))
        with self._engine.turn():
            for session in self._engine.deliveries.sessions:
                session.recall(lambda _held: True)
                for held in session.held.values():
                    held.queue = nowhere
            for queue in self._engine.queues.values():
                queue.ready.clear()
            self._engine.delayed.clear()


class TrialConnection(MemoryConnection):
    """A connection to a `TrialBroker`."""

    def __init__(self, broker: TrialBroker, engine: Engine) -> None:
        super().__init__(engine, declare=broker.declare)
        self._broker = broker

    async def consume(
        self,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self._broker.must_be_there()
        await super().consume(queues, prefetch=prefetch, on_delivery=on_delivery, weights=weights)

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        self._broker.must_be_there()
        await super().consume_apart(queue, on_delivery=on_delivery)

    async def pause(self) -> None:
        self._broker.cut.pop(self._session, None)
        await super().pause()

    async def resume(self) -> None:
        self._broker.must_be_there()
        await super().resume()

    async def publish(self, envelope: Envelope) -> Published:
        return Published.UNKNOWN if self._broker.is_away else await super().publish(envelope)
