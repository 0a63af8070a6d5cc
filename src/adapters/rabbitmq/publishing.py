"""RabbitMQ's blocking side, through pika."""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import compress

from cronhare.domain.topology import MAIN_QUEUE, first_queue
from cronhare.ports.broker import Delivery, Envelope, Published

from .connection.address import Address
from .publisher.aside import Aside
from .publisher.sending import Sender
from .publisher.window import Batch
from .reading import Reader
from .topology.declaration import Difference
from .topology.declarer import TopologyDeclarer
from .topology.wanted import WantedTopology
from .wire.messages import AmqpMessage, packed
from .wire.versions import QUORUM

#: Seconds that a publish may take, and the seconds that each message of its batch adds.
PUBLISH_TIMEOUT = 10.0
PUBLISH_TIMEOUT_PER_MESSAGE = 0.001


class PikaBroker:
    """Publishes for the scheduler, and reads for operator commands. Satisfies `BrokerPort`.

    It connects when it is first used, and again whenever it must. The topology for *queues* is
    declared before each connection for publishing.
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
    ) -> None:
        """*retry_delay* is how long a nacked message rests; *publish_timeout* is in seconds.

        Half of *publish_timeout* is given to a broker's alarm or silence, then the connection is
        given up.

        Raises:
            ValueError: the URL, the name of a queue or *queue_type* cannot be used.
        """
        address = Address.parse(url)
        self._wanted = WantedTopology(
            retry_delay=retry_delay,
            queues=queues,
            queue_type=queue_type,
            deduplication=deduplication,
        )
        self._upkeep = TopologyDeclarer(address, self._wanted)
        self._publish_timeout = publish_timeout
        self._reader = Reader(address)
        connect = partial(self._connect, address, timeout=publish_timeout / 2)
        self._aside = Aside(partial(connect, prepare=lambda: None, level=logging.DEBUG))
        self._sender = connect(prepare=self._upkeep.refresh, level=logging.WARNING)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What exists otherwise than we would declare it, as of the last declaration."""
        return self._wanted.differences

    def declare(self, queues: Iterable[str]) -> None:
        """Make sure that the topology for these task queues exists. Safe to repeat.

        What exists with other arguments is used as it is; `differences` tells them, and so does
        the log, once.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
            ValueError: a queue cannot have that name.
        """
        self._wanted.want(queues)
        self._upkeep.declare()

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        """Publish all, in order, and say of each what is known.

        Raises:
            ValueError: one is larger than the broker takes, or its delay than the lanes carry.
            TypeError: AMQP could not carry the headers of one. Nothing was published then.
        """
        if not batch:
            return []
        outcomes = self._publish([packed(envelope) for envelope in batch])
        if Published.RETURNED in outcomes:
            returned = {
                first_queue(envelope.to)
                for envelope, outcome in zip(batch, outcomes, strict=True)
                if outcome is Published.RETURNED
            }
            self._upkeep.restore(returned)
        return outcomes

    def _publish(self, parcels: Sequence[AmqpMessage]) -> Sequence[Published]:
        """Publish suspects apart, unless the broker is away: that is nobody's fault."""
        timeout = self._publish_timeout + PUBLISH_TIMEOUT_PER_MESSAGE * len(parcels)
        apart = self._aside.takes(parcels)
        if not any(apart) or not self._sender.is_hopeful():
            waiting = Batch(parcels)
            self._sender.submit(waiting)
            return waiting.wait(timeout)
        innocent = Batch(
            [each for each, is_apart in zip(parcels, apart, strict=True) if not is_apart]
        )
        self._sender.submit(innocent)
        suspected = iter(self._aside.publish(list(compress(parcels, apart)), timeout=timeout))
        others = iter(innocent.wait(timeout))
        return [next(suspected if is_apart else others) for is_apart in apart]

    def _connect(
        self, address: Address, *, timeout: float, prepare: Callable[[], None], level: int
    ) -> Sender:
        return Sender(
            address,
            prepare=prepare,
            doubt=self._wanted.doubt,
            timeout=timeout,
            suspect=self._aside.suspect,
            level=level,
        )

    def is_reachable(self) -> bool:
        """Tell whether the publishing connection is open, or hoped to be; the first call opens it.

        A broker's alarm is no outage, what it has it keeps; but who has published in vain
        meanwhile is told False until he is connected again, and has had an answer where that alone
        is no sign that the broker serves him.
        """
        return self._sender.is_hopeful()

    def receive(self, queue: str) -> Delivery | None:
        """Take the next message of a queue; None for an unknown queue, too.

        Raises:
            BrokerUnavailable: the broker cannot be asked, or this is closed.
        """
        return self._reader.receive(queue)

    def ack(self, delivery: Delivery) -> None:
        """Settle a message that `receive` gave; any other is left alone, and comes again."""
        self._reader.settle(delivery.tag, acked=True)

    def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a message back (*requeue*), or hand it to its queue's dead-letter exchange."""
        self._reader.settle(delivery.tag, acked=False, requeue=requeue)

    def close(self) -> None:
        """Let go of all connections, for good. What was received and not settled comes again."""
        self._sender.close()
        self._aside.close()
        self._reader.close()
