"""RabbitMQ's publishing side, through pika: one connection, on a thread of its own."""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cronhare.application.outages import Outage
from cronhare.domain.addresses import Host
from cronhare.domain.nodes import DISCONNECTING
from cronhare.domain.topology import first_queue
from cronhare.ports.broker import BrokerUnavailable, Envelope, Published

from .client import PIKA_ERRORS, Address, LeftOut, backoff, describe, why_unreachable
from .publishing import Batch, Item, PublisherConnection
from .topology import TopologyDeclarer
from .wire import encode

log = logging.getLogger(__name__)

#: Seconds that a publish may take, connecting included.
PUBLISH_TIMEOUT: Final = 10.0

#: Seconds that each message of a batch adds to the time that a publish may take.
PUBLISH_TIMEOUT_PER_MESSAGE = 0.001


class PikaBroker:
    """Publishes for schedulers, and below `AioPikaBroker` for workers. Satisfies `BrokerPort`.

    It publishes from a thread of its own, and connects when it is first used, and again whenever it
    must. The topology for *queues* is declared before each connection.

    Messages wait for the first attempt to connect, and the first after a loss; while later ones
    fail, they are answered at once, so that no caller hangs in an outage. So they are after a
    connection that took messages and confirmed none.
    """

    def __init__(
        self,
        url: str,
        *,
        publish_timeout: float = PUBLISH_TIMEOUT,
        declares: bool = True,
        level: int = logging.WARNING,
        **topology: Any,  # noqa: ANN401 - as `TopologyDeclarer` takes it
    ) -> None:
        """*publish_timeout* is in seconds; after half of it in alarm or silence it connects anew.

        One that *declares* nothing of itself publishes to what is there. Outages are logged at
        *level*.

        Raises:
            ValueError: the URL, or what `TopologyDeclarer` is given, cannot be used.
        """
        self.address = Address.parse(url)
        self.declarer = TopologyDeclarer(self.address, **topology)
        self.why_away = "the broker did not answer in time"  # the latest reason
        self._declares = declares
        self._publish_timeout = publish_timeout
        self._timeout = publish_timeout / 2
        self._level = level
        self._waits = backoff()
        self._lock = threading.Lock()
        self._waiting: deque[Item] = deque()
        self._hanging: dict[str, LeftOut] = {}  # by target
        self._connection: PublisherConnection | None = None
        self._is_available = True
        self._outage = Outage(log, f"Publishing again at {self.address}", back="broker.back")
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def declare(self, queues: Iterable[str]) -> None:
        self.declarer.add_queues(queues)
        self.declarer.declare()

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        if not batch:
            return []
        under_way, within = self.submit(batch)
        under_way.wait(within)
        outcomes = under_way.outcomes()
        if Published.RETURNED in outcomes:
            self.restore(batch, outcomes)
        return outcomes

    def submit(self, envelopes: Sequence[Envelope]) -> tuple[Batch, float]:
        """Begin to publish, unless the broker is away; say for how many seconds to wait."""
        batch = Batch([encode(each) for each in envelopes])
        items = [(batch, index) for index in range(len(envelopes))]
        with self._lock:
            is_taken = not self._closing.is_set() and self._is_available
            if is_taken:
                self._waiting.extend(items)
                self._begin()
            connection = self._connection
        if not is_taken:
            _give_up(items)
        elif connection is not None:
            connection.nudge()
        return batch, self._publish_timeout + PUBLISH_TIMEOUT_PER_MESSAGE * len(envelopes)

    def restore(self, envelopes: Sequence[Envelope], outcomes: Sequence[Published]) -> None:
        """Declare again what is ours of the queues for which messages were returned."""
        both = zip(envelopes, outcomes, strict=True)
        if self._declares:
            self.declarer.restore({first_queue(e.to) for e, o in both if o is Published.RETURNED})

    def is_reachable(self) -> bool:
        """Say whether the broker serves us, or may soon; the first call opens the connection.

        A broker's alarm is no outage: it keeps what it has. But after a publish in vain the answer
        is False until the broker has answered on another connection.
        """
        with self._lock:
            if not self._closing.is_set():
                self._begin()
            return self._is_available

    def close(self) -> None:
        """End the connection and the thread. What is under way stays unknown.

        It takes at most `DISCONNECTING`, and no longer than the broker may be silent.
        """
        with self._lock:
            self._closing.set()
            connection, thread = self._connection, self._thread
        if connection is not None:
            connection.stop()
        if thread is not None:
            thread.join(min(DISCONNECTING, self._timeout))
        self._give_up_waiting()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="cronhare-publisher", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            is_available = False
            try:
                if self._declares:
                    self.declarer.refresh()
                is_available = self.address.first(self._serve_at)
            except BrokerUnavailable as error:
                self._is_away(str(error))
            except PIKA_ERRORS as error:
                self._is_away(f"connecting to {self.address}: {why_unreachable(error)}")
            except Exception:  # whatever it is, the thread must not die of it
                log.exception("The publishing thread met a fault", extra={"action": "broker.fault"})
            with self._lock:
                self._is_available = is_available
            if not is_available:
                self._give_up_waiting()
            self._closing.wait(self._waits.next())
        self._give_up_waiting()

    def _is_away(self, why: str) -> None:
        self.why_away = why
        text = "Cannot publish, and what is due waits in the ledger"
        self._outage.lasts(self._level, "broker.unavailable", text, why)

    def _serve_at(self, node: Host) -> bool:
        """Publish until the connection ends; say whether the next one is worth waiting for.

        Raises:
            Exception: what pika says (`PIKA_ERRORS`): it could not be opened.
        """
        connection = PublisherConnection(
            self.address.for_pika(node, name="cronhare publishing", blocked_timeout=self._timeout),
            self._waiting,
            self._hanging,
            timeout=self._timeout,
            on_ready=self._is_ready,
        )
        with self._lock:
            self._connection = connection
        try:
            if not self._closing.is_set():
                connection.run()
        finally:
            with self._lock:
                self._connection = None
            connection.end()
        if connection.has_lived:
            self._waits.reset()
        if connection.was_refused:
            self.declarer.invalidate()
        if not self._closing.is_set():
            text = f"Lost the publishing connection to {self.address}"
            error = connection.ended_by
            self.why_away = "nobody says why" if error is None else describe(error)
            self._outage.lasts(self._level, "broker.lost", text, self.why_away)
        return connection.was_ready and not connection.was_unresponsive

    def _is_ready(self) -> None:
        self._outage.is_over(min(self._level, logging.INFO))
        with self._lock:
            self._is_available = True

    def _give_up_waiting(self) -> None:
        with self._lock:
            items = [*self._waiting]
            self._waiting.clear()
        _give_up(items)


def _give_up(items: Iterable[Item]) -> None:
    for batch, index in items:
        batch.settle(index, Published.UNKNOWN)
