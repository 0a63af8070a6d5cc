"""RabbitMQ's blocking side, through pika."""

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta

from cronhare.domain.topology import MAIN_QUEUE, first_queue
from cronhare.ports.broker import Envelope, Published

from .client import Address
from .publisher import PUBLISH_TIMEOUT, Publisher
from .topology import QUORUM, TopologyDeclarer
from .wire import encode

#: Seconds that each message of a batch adds to the time that a publish may take.
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

        One that *declares* nothing of itself publishes to what is there, and leaves outages to its
        caller.

        Raises:
            ValueError: the URL, the name of a queue or *queue_type* cannot be used.
        """
        address = Address.parse(url)
        self._declarer = TopologyDeclarer(
            address,
            retry_delay=retry_delay,
            queues=queues,
            queue_type=queue_type,
            deduplication=deduplication,
        )
        self._declares = declares
        self._publish_timeout = publish_timeout
        self._publisher = Publisher(
            address,
            self._declarer if declares else None,
            timeout=publish_timeout,
            level=logging.WARNING if declares else logging.DEBUG,
        )

    def declare(self, queues: Iterable[str]) -> None:
        self._declarer.add_queues(queues)
        self._declarer.declare()

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        if not batch:
            return []
        within = self._publish_timeout + PUBLISH_TIMEOUT_PER_MESSAGE * len(batch)
        outcomes = self._publisher.publish([encode(each) for each in batch], within=within)
        if self._declares and Published.RETURNED in outcomes:
            both = zip(batch, outcomes, strict=True)
            returned = {first_queue(each.to) for each, out in both if out is Published.RETURNED}
            self._declarer.restore(returned)
        return outcomes

    def is_reachable(self) -> bool:
        """Say whether the publishing connection is open, or may be soon; the first call opens it.

        A broker's alarm is no outage: it keeps what it has. But after a publish in vain the answer
        is False until another connection is open, and has had an answer where an open connection
        alone is no sign that the broker serves us.
        """
        return self._publisher.is_available()

    def close(self) -> None:
        self._publisher.close()
