"""The broker behind the connections: routes, expires, dead-letters, as RabbitMQ's classic queues.

Microseconds are of the clock's stopwatch; the wall clock only dates the dead-letterings.
"""

import enum
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakMethod

import msgspec

from cronhare.ports.broker import Envelope, Message, Published
from cronhare.ports.system import ClockPort

from .deliveries import Deliveries, Session
from .routing import MICROSECOND, DeclaredTopology, MemoryQueue, Stored, routed_copy

# Deaths: the headers that a broker adds to a message when it dead-letters it.
#
# As RabbitMQ 3.10 to 3.13 (www.rabbitmq.com/docs/dlx), in the order of 3.13.3 and later: the
# newest event first. RabbitMQ 4 differs in one point: it ignores an `x-death` that a client sends.


class Reason(enum.StrEnum):
    """Why a message left its queue for the dead-letter exchange."""

    REJECTED = "rejected"
    EXPIRED = "expired"


def add_death(
    headers: Mapping[str, object],
    queue: str,
    reason: Reason,
    *,
    exchange: str,
    key: str,
    at: datetime,
) -> dict[str, object]:
    """Add a dead-lettering of a message that came to *queue* by *exchange* and *key*.

    There is one entry per queue and reason, which moves to the front when its count rises. The
    rest of it, the time too, is of the first such event.
    """
    known: Any = headers.get("x-death", [])
    place = (queue, reason.value)
    same = next((one for one in known if (one["queue"], one["reason"]) == place), None)
    entry: dict[str, object] = {
        "count": 1,
        "reason": reason.value,
        "queue": queue,
        "time": at.replace(microsecond=0),
        "exchange": exchange,
        "routing-keys": [key],
    }
    first = {
        "x-first-death-reason": reason.value,
        "x-first-death-queue": queue,
        "x-first-death-exchange": exchange,
    }
    newest = entry if same is None else {**same, "count": same["count"] + 1}
    others = [one for one in known if one is not same]
    return {**({} if known else first), **headers, "x-death": [newest, *others]}


class Engine:
    """One broker, shared by any number of threads and event loops, one turn after the other.

    `publish`, `ack`, `nack` and `next_delivery` are a turn each. Everything else, *topology* and
    *deliveries* included, is called inside one.
    """

    def __init__(self, clock: ClockPort) -> None:
        self.topology = DeclaredTopology()
        self.deliveries = Deliveries(self._now)
        self._clock = clock
        self._lock = threading.Lock()
        self._announced: int | None = None
        clock.on_jump(_while_it_lives(WeakMethod(self.catch_up)))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Lock the broker: expire what is due before, wake the clients with deliveries after."""
        with self._lock:
            self._expire()
            try:
                yield
            finally:
                self._announce_expiry()
                self.deliveries.wake()

    def catch_up(self) -> None:
        """Expire what is due."""
        with self.turn():
            pass

    def publish(self, batch: Sequence[Envelope]) -> list[Published]:
        """Publish copies of all, in order.

        Raises:
            ValueError, TypeError: see `routed_copy`. Nothing was published then.
        """
        copies = [routed_copy(envelope) for envelope in batch]
        with self.turn():
            return [self._route(*copy) for copy in copies]

    def ack(self, session: Session, tag: object) -> None:
        with self.turn():
            self.deliveries.settle(session, tag, requeue=False)

    def nack(self, session: Session, tag: object, *, requeue: bool) -> None:
        """Take a message from a client: back to its place, or to the dead-letter exchange."""
        with self.turn():
            held = self.deliveries.settle(session, tag, requeue=requeue)
            if held is not None and not requeue:
                self._dead_letter(held.stored, held.queue, Reason.REJECTED, self._now())

    def next_delivery(self, session: Session) -> Callable[[], None] | None:
        """Take the next delivery from a client's inbox; the answer is a call that delivers it."""
        with self._lock:
            if not session.inbox:
                return None
            consumer, delivery = session.inbox.popleft()
        return lambda: consumer.on_delivery(delivery)

    def until_next_expiry(self) -> timedelta | None:
        head = self.topology.next_to_expire()
        return None if head is None else (head[0] - self._now()) * MICROSECOND

    def stopwatch(self) -> float:
        return self._clock.monotonic()

    def _route(self, exchange: str, key: str, message: Message) -> Published:
        queues = self.topology.route(exchange, key)
        now = self._now()
        for queue in queues:
            self._enqueue(queue, Stored(message, exchange, key), now)
        return Published.CONFIRMED if queues else Published.RETURNED

    def _now(self) -> int:
        return round(self._clock.monotonic() * 1_000_000)

    def _expire(self) -> None:
        """Expire what is due, in the order of time: each hop begins when the one before ended."""
        now = self._now()
        while (head := self.topology.next_to_expire()) is not None and head[0] <= now:
            expired, queue = head
            self._dead_letter(queue.ready.popleft(), queue, Reason.EXPIRED, expired)

    def _announce_expiry(self) -> None:
        """Wake the consuming loops if a message expires sooner than their timers are set for."""
        head = self.topology.next_to_expire()
        sooner = head is not None and (self._announced is None or head[0] < self._announced)
        self._announced = None if head is None else head[0]
        if sooner:
            self.deliveries.wake_consuming()

    def _enqueue(self, queue: MemoryQueue, stored: Stored, now: int) -> None:
        queue.append(stored, now)
        self.deliveries.serve(queue)

    def _dead_letter(self, stored: Stored, queue: MemoryQueue, reason: Reason, now: int) -> None:
        """Publish a message again, as of *now*; without a dead-letter exchange it is gone."""
        exchange, key = queue.spec.dead_letter_exchange, queue.spec.dead_letter_key
        if exchange is None:
            return
        headers = add_death(
            stored.message.headers,
            queue.spec.name,
            reason,
            exchange=stored.exchange,
            key=stored.key,
            at=self._clock.now() - (self._now() - now) * MICROSECOND,
        )
        message = msgspec.structs.replace(stored.message, headers=headers)
        key = stored.key if key is None else key
        for target in self.topology.route(exchange, key):
            self._enqueue(target, Stored(message, exchange, key), now)


def _while_it_lives(method: WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """Call a method while its object lives: a clock outlives the brokers of a test."""

    def call() -> None:
        if (alive := method()) is not None:
            alive()

    return call
