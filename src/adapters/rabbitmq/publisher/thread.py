"""The thread that publishes, on a connection that does nothing else, with pipelined confirms.

Under a memory alarm the broker stops reading the connections that publish: an ack behind a blocked
publish would never arrive. So nothing is consumed here.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from pika.exceptions import ConnectionBlockedTimeout

from cronhare.application.outages import Outage
from cronhare.domain.addresses import Host
from cronhare.domain.shutdown_times import DISCONNECTING
from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.backoff import Backoff
from ..connection.errors import PIKA_ERRORS, describe, unresolved, why_unreachable
from ..wire.messages import AmqpMessage
from .confirms import Batch
from .connection import PublisherConnection

log = logging.getLogger(__name__)


class PublisherThread:
    """Publishes the batches of any number of threads, in order, from a thread of its own.

    Batches wait for the first attempt to connect, and the first after a loss; while later ones
    fail, they are answered at once, so that no caller hangs in an outage. So they are after a
    connection that took messages and confirmed none, until the broker has answered a trial.
    """

    def __init__(
        self,
        address: Address,
        *,
        prepare: Callable[[], None],
        invalidate: Callable[[], None],
        timeout: float,
        suspect: Callable[[Sequence[AmqpMessage]], None],
        level: int,
    ) -> None:
        """*prepare* is called before each connection is made, and may raise BrokerUnavailable.

        *invalidate* is called when the broker refused something that *prepare* should have made.

        After *timeout* seconds of a broker's alarm, or of its silence, the connection is closed.
        *suspect* is called with what a silence left unconfirmed. Outages are logged at *level*.
        """
        self._address = address
        self._prepare = prepare
        self._invalidate = invalidate
        self._suspect = suspect
        self._level = level
        self.was_refused = False  # the broker answered, and ended the latest channel
        self.was_blocked = False  # an alarm ended the latest connection
        self._backoff = Backoff()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._waiting: deque[Batch] = deque()
        self._connection: PublisherConnection | None = None
        self._is_available = True
        # Whether a connection that opens is a sign that the broker serves us. It is not after one
        # that was unresponsive, until another has brought an answer: else we would take what is
        # due from other replicas, again and again, and publish nothing.
        self._is_trusted = True
        self._outage = Outage(log, f"Publishing again at {address}", back="broker.back")
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, batch: Batch) -> None:
        """Have a batch published; it is given up at once while the broker is unavailable."""
        with self._lock:
            if self._closing.is_set() or not self._is_available:
                batch.give_up()
                return
            self._waiting.append(batch)
            connection = self._connection
            self._begin()
        if connection is not None:
            connection.nudge()

    def is_available(self) -> bool:
        """Say whether a connection serves, or the latest one did. The first call connects."""
        with self._lock:
            if not self._closing.is_set():
                self._begin()
            return self._is_available

    def retire(self) -> None:
        """Open no other connection once this one has ended."""
        with self._lock:
            self._closing.set()

    @property
    def is_ending(self) -> bool:
        """Whether it is retired, or closed."""
        return self._closing.is_set()

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

    def close_in_background(self) -> threading.Thread:
        """Close it beside others: the broker may not answer."""
        thread = threading.Thread(target=self.close, daemon=True)
        thread.start()
        return thread

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="cronhare-publisher", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            opened = False
            try:
                self._prepare()
                opened = self._serve()
            except BrokerUnavailable as error:
                self._is_away(str(error))
            except PIKA_ERRORS as error:
                self._is_away(f"connecting to {self._address}: {why_unreachable(error)}")
            except Exception:  # whatever it is, the thread must not die of it
                log.exception("The publishing thread met a fault", extra={"action": "broker.fault"})
            with self._lock:
                self._is_available = is_available = opened and self._is_trusted
            if not is_available:
                self._give_up_waiting()
            self._closing.wait(self._backoff.next())
        self._give_up_waiting()

    def _is_away(self, why: str) -> None:
        text = "Cannot publish, and what is due waits in the ledger"
        self._outage.lasts(self._level, "broker.unavailable", text, why)

    def _serve(self) -> bool:
        """Publish until the connection ends, and say whether it was open.

        Raises:
            Exception: what pika says of the last node (`PIKA_ERRORS`): none could be opened.
        """
        *others, last = self._address.nodes()
        for node in others:
            with suppress(*PIKA_ERRORS):
                return self._serve_at(node)
        return self._serve_at(last)

    def _serve_at(self, node: Host) -> bool:
        connection = PublisherConnection(
            self._address.for_pika(node, name="cronhare publishing", blocked_timeout=self._timeout),
            self._waiting,
            timeout=self._timeout,
            is_trusted=self._is_trusted,
            on_ready=self._is_ready,
            on_life=self._backoff.reset,
            on_silence=self._suspect,
        )
        with self._lock:
            self._connection = connection
        try:
            if not self._closing.is_set():
                connection.run()
        except UnicodeError as error:
            if connection.was_open:  # it is not about the host's name
                raise
            raise unresolved(error) from error
        finally:
            with self._lock:
                self._connection = None
            self.was_refused = connection.was_refused
            self.was_blocked = isinstance(connection.ended_by, ConnectionBlockedTimeout)
            connection.end()
        self._has_ended(connection)
        return connection.was_open

    def _has_ended(self, connection: PublisherConnection) -> None:
        has_trust = self._is_trusted or connection.was_answered
        self._is_trusted = has_trust and not connection.was_unresponsive
        if connection.was_refused:
            self._invalidate()
        if not self._closing.is_set():
            text = f"Lost the publishing connection to {self._address}"
            error = connection.ended_by
            why = "nobody says why" if error is None else describe(error)
            self._outage.lasts(self._level, "broker.lost", text, why)

    def _is_ready(self) -> None:
        self._outage.is_over(min(self._level, logging.INFO))
        with self._lock:
            self._is_available = True

    def _give_up_waiting(self) -> None:
        with self._lock:
            while self._waiting:
                self._waiting.popleft().give_up()
