"""The broker behind the connections: delays, expires and dead-letters messages, as RabbitMQ does.

What waits for its time is in one heap: a delay needs no lanes here. Microseconds are of the clock's
stopwatch; the wall clock only dates the dead-letterings.
"""

import enum
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any
from weakref import WeakMethod

import msgspec

from cronhare.domain.topology import (
    DELIVERY_EXCHANGE,
    LANE_UNIT,
    QUARANTINE_QUEUE,
    RETRY_QUEUE,
    Destination,
    Topology,
    ToQueue,
    first_queue,
    route,
)
from cronhare.ports.broker import Envelope, Message, Published
from cronhare.ports.system import ClockPort

from .deliveries import Deliveries, Session
from .queues import MICROSECOND, MemoryQueue, Stored, copy_of

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

    `declare`, `publish`, `ack`, `nack` and `next_delivery` are a turn each. Everything else,
    *queues* and *deliveries* included, is used inside one.
    """

    def __init__(self, clock: ClockPort) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self.delayed: list[tuple[int, int, ToQueue, Message]] = []  # a heap, by the time of the end
        self._places = count()
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
        with self.turn():
            pass

    def declare(self, topology: Topology) -> None:
        """Add the queues that are missing, but for the lanes."""
        with self.turn():
            for spec in topology.queues:
                if not spec.name.startswith(f"{RETRY_QUEUE}."):
                    self.queues.setdefault(spec.name, MemoryQueue(spec))

    def publish(self, batch: Sequence[Envelope]) -> list[Published]:
        """Publish copies of all, in order.

        Raises:
            ValueError, TypeError: see `copy_of` and `route`. Nothing was published then.
        """
        copies = [(each.to, *route(each.to), copy_of(each.message)) for each in batch]
        with self.turn():
            return [self._accept(*copy) for copy in copies]

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
        at = self._next_expiry()
        return None if at is None else (at - self._now()) * MICROSECOND

    def stopwatch(self) -> float:
        return self._clock.monotonic()

    def _accept(self, to: Destination, exchange: str, key: str, message: Message) -> Published:
        if isinstance(to, ToQueue) and to.delay > timedelta(0):
            over = self._now() + -(-to.delay // LANE_UNIT) * (LANE_UNIT // MICROSECOND)
            heappush(self.delayed, (over, next(self._places), to, message))
            return Published.CONFIRMED
        if (queue := self.queues.get(first_queue(to))) is None:
            return Published.RETURNED
        self._enqueue(queue, Stored(message, exchange, key), self._now())
        return Published.CONFIRMED

    def _now(self) -> int:
        return round(self._clock.monotonic() * 1_000_000)

    def _expire(self) -> None:
        """Expire what is due, in the order of time: each hop begins when the one before ended."""
        now, retry = self._now(), self.queues.get(RETRY_QUEUE)
        while (at := self._next_expiry()) is not None and at <= now:
            if self.delayed and self.delayed[0][0] == at:
                *_, to, message = heappop(self.delayed)
                queue = self.queues.get(to.queue) or self.queues[QUARANTINE_QUEUE]
                self._enqueue(queue, Stored(message, DELIVERY_EXCHANGE, route(to)[1]), at)
            elif retry is not None:
                self._dead_letter(retry.ready.popleft(), retry, Reason.EXPIRED, at)

    def _next_expiry(self) -> int | None:
        """Say when the next message expires: no later one of a queue does before its head."""
        retry = self.queues.get(RETRY_QUEUE)
        first = retry.ready[0].expires if retry is not None and retry.ready else None
        over = self.delayed[0][0] if self.delayed else None
        return over if first is None or (over is not None and over < first) else first

    def _announce_expiry(self) -> None:
        """Wake the consuming loops if a message expires sooner than their timers are set for."""
        at = self._next_expiry()
        sooner = at is not None and (self._announced is None or at < self._announced)
        self._announced = at
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
        # A task queue leads to the retry queue, and that back to the main one.
        target = self.queues[(key or stored.key) if exchange == "" else RETRY_QUEUE]
        self._enqueue(target, Stored(message, exchange, key or stored.key), now)


def _while_it_lives(method: WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """Call a method while its object lives: a clock outlives the brokers of a test."""

    def call() -> None:
        if (alive := method()) is not None:
            alive()

    return call
