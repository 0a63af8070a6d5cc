"""RabbitMQ's blocking side, through pika."""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import compress

from cronhare.domain.shutdown_times import DISCONNECTING
from cronhare.domain.topology import MAIN_QUEUE, first_queue
from cronhare.ports.broker import Envelope, Published

from .connection.address import Address
from .publisher.confirms import Batch
from .publisher.suspects import SuspectPublisher
from .publisher.thread import PublisherThread
from .topology.declaration import Difference
from .topology.declarer import TopologyDeclarer
from .topology.desired import DesiredTopology
from .wire.messages import AmqpMessage, encode
from .wire.versions import QUORUM

#: Seconds that a publish may take, and the seconds that each message of its batch adds.
PUBLISH_TIMEOUT = 10.0
PUBLISH_TIMEOUT_PER_MESSAGE = 0.001


class PikaBroker:
    """Publishes for the scheduler. Satisfies `BrokerPort`.

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
        declares: bool = True,
    ) -> None:
        """*retry_delay* is how long a nacked message rests; *publish_timeout* is in seconds.

        After half of it in a broker's alarm or silence, the connection is closed. One that
        *declares* nothing of itself publishes to what is there, and leaves outages to its caller.

        Raises:
            ValueError: the URL, the name of a queue or *queue_type* cannot be used.
        """
        self._address = address = Address.parse(url)
        self._desired = DesiredTopology(
            retry_delay=retry_delay,
            queues=queues,
            queue_type=queue_type,
            deduplication=deduplication,
        )
        self._declarer = TopologyDeclarer(address, self._desired)
        self._publish_timeout = publish_timeout
        self._suspects = SuspectPublisher(lambda: self._start(lambda: None, logging.DEBUG))
        self._declares = declares
        self._publisher = (
            self._start(self._declarer.refresh, logging.WARNING)
            if declares
            else self._start(lambda: None, logging.DEBUG)
        )

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What exists otherwise than we would declare it, as of the last declaration."""
        return self._desired.differences

    def declare(self, queues: Iterable[str]) -> None:
        """Make sure that the topology for these task queues exists. Safe to repeat.

        What exists with other arguments is used as it is, logged once, and in `differences`.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
            ValueError: a queue cannot have that name.
        """
        self._desired.add_queues(queues)
        self._declarer.declare()

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        """Publish all, in order, and give the outcome of each.

        Raises:
            ValueError: one is larger than the broker takes, or its delay than the lanes carry.
            TypeError: AMQP could not carry the headers of one. Nothing was published then.
        """
        if not batch:
            return []
        outcomes = self._publish([encode(envelope) for envelope in batch])
        if self._declares and Published.RETURNED in outcomes:
            returned = {
                first_queue(envelope.to)
                for envelope, outcome in zip(batch, outcomes, strict=True)
                if outcome is Published.RETURNED
            }
            self._declarer.restore(returned)
        return outcomes

    def _publish(self, messages: Sequence[AmqpMessage]) -> Sequence[Published]:
        """Publish apart what is for suspects, unless the broker is away as a whole."""
        timeout = self._publish_timeout + PUBLISH_TIMEOUT_PER_MESSAGE * len(messages)
        apart = self._suspects.are_suspect(messages)
        if not any(apart) or not self._publisher.is_available():
            waiting = Batch(messages)
            self._publisher.submit(waiting)
            return waiting.wait(timeout)
        innocent = Batch(
            [each for each, is_apart in zip(messages, apart, strict=True) if not is_apart]
        )
        self._publisher.submit(innocent)
        suspected = iter(self._suspects.publish(list(compress(messages, apart)), timeout=timeout))
        others = iter(innocent.wait(timeout))
        return [next(suspected if is_apart else others) for is_apart in apart]

    def _start(self, prepare: Callable[[], None], level: int) -> PublisherThread:
        return PublisherThread(
            self._address,
            prepare=prepare,
            invalidate=self._desired.invalidate,
            timeout=self._publish_timeout / 2,
            suspect=self._suspects.suspect,
            level=level,
        )

    def is_reachable(self) -> bool:
        """Say whether the publishing connection is open, or may be soon; the first call opens it.

        A broker's alarm is no outage: it keeps what it has. But after a publish in vain the answer
        is False until another connection is open, and has had an answer where an open connection
        alone is no sign that the broker serves us.
        """
        return self._publisher.is_available()

    def close(self) -> None:
        """Close all connections, beside each other: it takes at most `DISCONNECTING`."""
        closing = self._publisher.close_in_background()
        self._suspects.close()
        closing.join(DISCONNECTING)
