"""The publisher of schedulers and workers: a thread that pipelines, and one for what may hang.

A quorum queue whose process hangs stops the channel on which something is published to it, and
with it all that is published there: none of it is confirmed (RabbitMQ 3.10). The broker does not
say which queue it is. So each that had unconfirmed messages is a suspect, and is published to apart
from all others, one message at a time, until it confirms one.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from cronhare.application.outages import Outage
from cronhare.domain.addresses.servers import Host
from cronhare.domain.nodes import DISCONNECTING
from cronhare.ports.broker import BrokerUnavailable, Published

from .client import PIKA_ERRORS, Address, LeftOut, backoff, describe, why_unreachable
from .publishing import WINDOW, Batch, Item, PublisherConnection
from .topology import TopologyDeclarer
from .wire import AmqpMessage

log = logging.getLogger(__name__)

#: Seconds that a publish may take, connecting included.
PUBLISH_TIMEOUT: Final = 10.0

#: Seconds without a confirm after which a suspect hangs; twice as many at most.
PROBE_TIMEOUT: Final = 1.0

#: Seconds that one call may wait for suspects. What is open then is `REFUSED`, as by a full queue:
#: the broker is not away.
MOST_WAITED: Final = 3.0


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
        on_refusal: Callable[[], None],
        on_silence: Callable[[Sequence[Item]], None],
        timeout: float,
        level: int,
        on_answer: Callable[[Item], None] | None = None,
    ) -> None:
        """*prepare* is called before each connection is made, and may raise BrokerUnavailable.

        *on_refusal* is called when the broker refused something that should be there. After
        *timeout* seconds of a broker's alarm, or of its silence, the connection is closed;
        *on_silence* is called with what a silence left unconfirmed. Outages are logged at *level*.

        With *on_answer* it publishes one message at a time, calls that with each that is answered,
        and needs no trial.
        """
        self.why_away = "the broker did not answer in time"
        self._address = address
        self._prepare = prepare
        self._on_refusal = on_refusal
        self._on_silence = on_silence
        self._on_answer = on_answer
        self._timeout = timeout
        self._level = level
        self._waits = backoff()
        self._lock = threading.Lock()
        self._waiting: deque[Item] = deque()
        self._connection: PublisherConnection | None = None
        self._is_available = True
        # Whether a connection that opens is a sign that the broker serves us. It is not after one
        # that was unresponsive, until another has brought an answer: else we would take what is
        # due from other replicas, again and again, and publish nothing.
        self._is_trusted = True
        self._outage = Outage(log, f"Publishing again at {address}", back="broker.back")
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, batch: Batch, indices: Iterable[int]) -> None:
        """Have these messages published; they are `UNKNOWN` at once while the broker is away."""
        items = [(batch, index) for index in indices]
        with self._lock:
            is_taken = not self._closing.is_set() and self._is_available
            if is_taken:
                self._waiting.extend(items)
                self._begin()
            connection = self._connection
        if not is_taken:
            _settle(items, Published.UNKNOWN)
        elif connection is not None:
            connection.nudge()

    def refuse(self, target: str) -> None:
        """Answer `REFUSED` to what waits for a target."""
        with self._lock:  # what is settled is not published
            items = [item for item in self._waiting if _target(item) == target]
        _settle(items, Published.REFUSED)

    def is_available(self) -> bool:
        """Say whether a connection serves, or the latest one did. The first call connects."""
        with self._lock:
            if not self._closing.is_set():
                self._begin()
            return self._is_available

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and no confirm is due."""
        connection = self._connection
        return not self._waiting and (connection is None or connection.is_idle)

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
            self._closing.wait(self._waits.next())
        self._give_up_waiting()

    def _is_away(self, why: str) -> None:
        self.why_away = why
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
            window=WINDOW if self._on_answer is None else 1,
            is_trusted=self._is_trusted,
            on_ready=self._is_ready,
            on_life=self._lives,
            on_silence=self._on_silence,
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
        self._has_ended(connection)
        return connection.was_open

    def _has_ended(self, connection: PublisherConnection) -> None:
        if self._on_answer is None:
            has_trust = self._is_trusted or connection.was_answered
            self._is_trusted = has_trust and not connection.was_unresponsive
        if connection.was_refused:
            self._on_refusal()
        if not self._closing.is_set():
            text = f"Lost the publishing connection to {self._address}"
            error = connection.ended_by
            self.why_away = "nobody says why" if error is None else describe(error)
            self._outage.lasts(self._level, "broker.lost", text, self.why_away)

    def _is_ready(self) -> None:
        self._outage.is_over(min(self._level, logging.INFO))
        with self._lock:
            self._is_available = True

    def _lives(self, answered: Sequence[Item]) -> None:
        self._waits.reset()
        if self._on_answer is not None:
            for item in answered:
                self._on_answer(item)

    def _give_up_waiting(self) -> None:
        with self._lock:
            items = [*self._waiting]
            self._waiting.clear()
        _settle(items, Published.UNKNOWN)


class Publisher:
    """Publishes with pipelined confirms, to suspects apart. Safe to share between threads."""

    def __init__(
        self,
        address: Address,
        declarer: TopologyDeclarer | None,
        *,
        timeout: float = PUBLISH_TIMEOUT,
        level: int,
    ) -> None:
        """*declarer* makes what is missing before each connection; without one nothing does.

        After half of *timeout* seconds in a broker's alarm or silence, the connection is closed.
        Outages are logged at *level*.
        """
        self._suspects: dict[str, LeftOut] = {}
        self._main = PublisherThread(
            address,
            prepare=_nothing if declarer is None else declarer.refresh,
            on_refusal=_nothing if declarer is None else declarer.invalidate,
            on_silence=self._suspect,
            timeout=timeout / 2,
            level=level,
        )
        # It declares nothing: with a queue that hangs that takes long, and all declarations wait
        # for each other. Where an exchange is missing, the other connection declares.
        self._apart = PublisherThread(
            address,
            prepare=_nothing,
            on_refusal=self._suspects.clear,
            on_silence=self._hang,
            timeout=PROBE_TIMEOUT,
            level=logging.DEBUG,
            on_answer=self._acquit,
        )

    @property
    def why_away(self) -> str:
        """The latest reason for which messages were not confirmed."""
        return self._main.why_away

    def submit(self, messages: Sequence[AmqpMessage]) -> Batch:
        """Begin to publish; what is for a queue that hangs is `REFUSED`."""
        batch = Batch(messages)
        if self._suspects and not self._apart.is_available():
            self._suspects.clear()  # the broker may allow no further connection
        if suspects := set(self._suspects):
            batch.apart = [i for i in range(len(messages)) if _target((batch, i)) in suspects]
        for index in batch.apart:
            self._publish_apart(batch, index)
        apart = set(batch.apart)
        self._main.submit(batch, [i for i in range(len(messages)) if i not in apart])
        return batch

    def publish(self, messages: Sequence[AmqpMessage], *, within: float) -> list[Published]:
        """Publish all, and wait for the outcomes so many seconds."""
        batch = self.submit(messages)
        if batch.apart:
            batch.wait(MOST_WAITED)
            batch.settle_apart(Published.REFUSED)
        batch.wait(within)
        return batch.outcomes()

    def is_available(self) -> bool:
        """Say whether a connection serves, or the latest one did. The first call connects."""
        return self._main.is_available()

    def close(self) -> None:
        """Close both connections, beside each other: it takes at most `DISCONNECTING`."""
        both = [
            threading.Thread(target=each.close, daemon=True) for each in (self._main, self._apart)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(DISCONNECTING)

    def _publish_apart(self, batch: Batch, index: int) -> None:
        """Try one that has hung only when nobody waits behind it, and ever more rarely."""
        if not self._main.is_available():  # the broker is away as a whole
            batch.settle(index, Published.UNKNOWN)
            return
        suspect = self._suspects.get(_target((batch, index)))
        retry_at = None if suspect is None else suspect.retry_at
        if retry_at is not None and (time.monotonic() < retry_at or not self._apart.is_idle):
            batch.settle(index, Published.REFUSED)
        else:
            self._apart.submit(batch, [index])

    def _suspect(self, items: Sequence[Item]) -> None:
        """Suspect the targets of what a silent connection left unconfirmed."""
        for target in set(map(_target, items)):
            outage = Outage(log, f"Publishing to {target} again", back="queue.back")
            self._suspects.setdefault(target, LeftOut(outage))

    def _hang(self, items: Sequence[Item]) -> None:
        """Refuse what is for a suspect that left its message unconfirmed, for a while."""
        _settle(items, Published.REFUSED)
        for target in map(_target, items):
            if (suspect := self._suspects.get(target)) is not None:
                text = f"{target} confirms nothing, and is published to beside the others"
                suspect.fails(time.monotonic(), text, "its connection is silent")
            self._apart.refuse(target)

    def _acquit(self, item: Item) -> None:
        """Publish to a target with the others again: it has answered."""
        if (suspect := self._suspects.pop(_target(item), None)) is not None:
            suspect.outage.is_over()


def _target(item: Item) -> str:
    """Name what a message enters first: a queue, or the exchange of a lane."""
    batch, index = item
    message = batch.messages[index]
    return message.exchange or message.key


def _settle(items: Iterable[Item], outcome: Published) -> None:
    for batch, index in items:
        batch.settle(index, outcome)


def _nothing() -> None:
    """Neither declare anything, nor have it declared."""
