"""A broker in this process, with RabbitMQ's manners and on our clock."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from cronhare.domain.topology import MAIN_QUEUE, topology
from cronhare.ports.broker import Delivery, Envelope, Published
from cronhare.ports.clock import ClockPort

from .connection import MemoryConnection
from .engine import Engine
from .sessions import Session


class MemoryBroker:
    """Carries messages between the threads and loops of one process. Satisfies `BrokerPort`.

    It is the broker and the blocking connection to it; `connect` makes the asynchronous ones.
    The topology for *queues* is declared from the start. Messages live as long as this object:
    the ledger brings back what was under way. Like RabbitMQ it delivers at least once.

    `go_away` and `come_back`, `drop` and `drop_all` simulate its faults.
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
        self._session = Session(wake=lambda: True)
        with self._engine.turn():
            self._engine.deliveries.open(self._session)
        self.declare(queues)

    def connect(self) -> MemoryConnection:
        """Make a connection for one event loop, such as a worker's."""
        return MemoryConnection(self._engine, declare=self.declare)

    def declare(self, queues: Iterable[str]) -> None:
        """Make sure that the topology for these task queues exists. Safe to repeat.

        Raises:
            BrokerUnavailable: the broker is away.
            ValueError: a queue cannot have that name.
        """
        wanted = topology(retry_delay=self._retry_delay, queues=queues)
        with self._engine.visit():
            self._engine.topology.add(wanted)

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        """Publish all, in order: all `UNKNOWN` while away.

        Raises:
            ValueError: one is larger than the broker takes, or its delay than the lanes carry.
            TypeError: AMQP could not carry the headers of one. Nothing was published then.
        """
        return self._engine.publish(batch)

    def is_reachable(self) -> bool:
        """Tell whether it is reachable."""
        return not self._engine.deliveries.away

    def receive(self, queue: str) -> Delivery | None:
        """Take the next message of a queue; None for an unknown queue, too.

        Raises:
            BrokerUnavailable: the broker is away.
        """
        with self._engine.visit():
            known = self._engine.topology.queues.get(queue)
            return None if known is None else self._engine.deliveries.take(self._session, known)

    def ack(self, delivery: Delivery) -> None:
        """Settle a message that `receive` gave; any other is left alone, and comes again."""
        self._engine.ack(self._session, delivery.tag)

    def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a message back (*requeue*), or to its queue's dead-letter exchange."""
        self._engine.nack(self._session, delivery.tag, requeue=requeue)

    def close(self) -> None:
        """Requeue what `receive` gave and was not settled. The broker serves others on."""
        with self._engine.turn():
            self._engine.deliveries.requeue_all(self._session)

    def depth(self, queue: str) -> int:
        """Count the messages that wait in a queue, without those that are delivered."""
        with self._engine.turn():
            known = self._engine.topology.queues.get(queue)
            return 0 if known is None else len(known.ready)

    def go_away(self) -> None:
        """Be unreachable, as when the network fails.

        Connections break: unsettled messages are requeued, and settling them later does nothing.
        What is published is `UNKNOWN` and does not arrive. Queued messages still expire.
        """
        with self._engine.turn():
            self._engine.deliveries.go_away()

    def come_back(self) -> None:
        """Be reachable again. Connections that consumed go on, as if they had reconnected."""
        with self._engine.turn():
            self._engine.deliveries.come_back()

    def drop(self, queue: str) -> None:
        """Lose the messages of one queue, as `drop_all` does."""
        with self._engine.turn():
            self._engine.deliveries.lose([self._engine.topology.queues[queue]])

    def drop_all(self) -> None:
        """Lose every message, as a broker whose disk was replaced. Queues and consumers stay.

        What is delivered can still be worked on, but is not requeued.
        """
        with self._engine.turn():
            self._engine.deliveries.lose(list(self._engine.topology.queues.values()))
