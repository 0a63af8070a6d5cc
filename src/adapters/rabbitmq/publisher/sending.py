"""The thread that publishes: one connection that does nothing else, confirms pipelined.

A connection under a memory alarm is read by the broker no further: an ack behind a blocked publish
would never arrive. So nobody consumes here.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from pika.exceptions import ConnectionBlockedTimeout

from cronhare.application.outages import Outage
from cronhare.domain.addresses import Host
from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.backoff import Backoff
from ..connection.errors import TROUBLE, said_by, unconnected, unresolved
from ..wire.messages import AmqpMessage
from .connection import PublisherConnection
from .trust import Trust
from .window import Batch

log = logging.getLogger(__name__)

#: Seconds that `close` waits for the broker's good-bye.
CLOSE_TIMEOUT = 5.0


class Sender:
    """Publishes the batches of any number of threads, in order, from a thread of its own.

    The first attempt to connect, and the first after a loss, is worth waiting for; while later
    ones fail, batches are answered at once, so that nobody's loop hangs in an outage. So they are
    after a connection that took messages and confirmed none, until the broker has answered a trial.
    """

    def __init__(
        self,
        address: Address,
        *,
        prepare: Callable[[], None],
        doubt: Callable[[], None],
        timeout: float,
        suspect: Callable[[Sequence[AmqpMessage]], None],
        level: int = logging.WARNING,
    ) -> None:
        """*prepare* is called before each connection is made, and may raise BrokerUnavailable.

        *doubt* is called when the broker refused something that *prepare* should have prepared.

        After *timeout* seconds of a broker's alarm, or of its silence, the connection is given up.
        *suspect* is told what was under way in a silence. Troubles are told at this *level*.
        """
        self._address = address
        self._prepare = prepare
        self._doubt = doubt
        self._suspect = suspect
        self._level = level
        self.was_refused = False  # the broker answered, and ended the latest channel
        self.was_blocked = False  # an alarm ended the latest connection
        self._backoff = Backoff()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._waiting: deque[Batch] = deque()
        self._line: PublisherConnection | None = None
        self._hopeful = True
        self._trust = Trust()
        self._outage = Outage(log, f"Publishing again at {address}", back="broker.back")
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, batch: Batch) -> None:
        """Have a batch published; it is given up at once if there is no hope."""
        with self._lock:
            if self._closing.is_set() or not self._hopeful:
                batch.give_up()
                return
            self._waiting.append(batch)
            line = self._line
            self._begin()
        if line is not None:
            line.nudge()

    def is_hopeful(self) -> bool:
        """Tell whether the latest connection served, or one does; from now on there are some."""
        with self._lock:
            if not self._closing.is_set():
                self._begin()
            return self._hopeful

    def retire(self) -> None:
        """Make no other connection once this one has ended."""
        with self._lock:
            self._closing.set()

    @property
    def is_ending(self) -> bool:
        """Whether it is retired, or closed."""
        return self._closing.is_set()

    def close(self) -> None:
        """End the connection and the thread. What is under way stays unknown."""
        with self._lock:
            self._closing.set()
            line, thread = self._line, self._thread
        if line is not None:
            line.stop()
        if thread is not None:
            thread.join(CLOSE_TIMEOUT)
        self._give_up_waiting()

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
                opened = self._live()
            except BrokerUnavailable as error:
                self._is_away(str(error))
            except TROUBLE as error:
                self._is_away(f"connecting to {self._address}: {unconnected(error)}")
            except Exception:  # whatever it is, the thread must not die of it
                log.exception("The publishing thread met a fault", extra={"action": "broker.fault"})
            with self._lock:
                self._hopeful = is_hopeful = opened and not self._trust.is_lost
            if not is_hopeful:
                self._give_up_waiting()
            self._closing.wait(self._backoff.next())
        self._give_up_waiting()

    def _is_away(self, why: str) -> None:
        text = "Cannot publish, and what is due waits in the ledger"
        self._outage.lasts(self._level, "broker.unavailable", text, why)

    def _live(self) -> bool:
        """Publish until the connection ends, and say whether it had been open.

        Raises:
            Exception: what pika says of the last node (`TROUBLE`): none could be opened.
        """
        *others, last = self._address.nodes()
        for node in others:
            with suppress(*TROUBLE):
                return self._live_at(node)
        return self._live_at(last)

    def _live_at(self, node: Host) -> bool:
        parameters = self._address.for_pika(
            node, name="cronhare publishing", blocked_timeout=self._timeout
        )
        line = PublisherConnection(
            parameters,
            self._waiting,
            timeout=self._timeout,
            is_trusted=not self._trust.is_lost,
            on_ready=self._is_ready,
            on_life=self._backoff.reset,
            on_silence=self._suspect,
        )
        with self._lock:
            self._line = line
        try:
            if not self._closing.is_set():
                line.run()
        except UnicodeError as error:
            if line.was_open:  # it is no host's name
                raise
            raise unresolved(error) from error
        finally:
            with self._lock:
                self._line = None
            self.was_refused = line.was_refused
            self.was_blocked = isinstance(line.ended_by, ConnectionBlockedTimeout)
            line.end()
        self._trust.note(vain=line.was_vain, heard=line.was_heard)
        if line.was_refused:
            self._doubt()
        if not self._closing.is_set():
            text = f"Lost the publishing connection to {self._address}"
            why = said_by(line.ended_by) if line.ended_by is not None else "nobody says why"
            self._outage.lasts(self._level, "broker.lost", text, why)
        return line.was_open

    def _is_ready(self) -> None:
        self._outage.is_over(min(self._level, logging.INFO))
        with self._lock:
            self._hopeful = True

    def _give_up_waiting(self) -> None:
        with self._lock:
            while self._waiting:
                self._waiting.popleft().give_up()
