"""Clients and their deliveries: sent round robin and within a prefetch, settled, requeued."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from itertools import count

import attrs
import msgspec

from cronhare.domain.topology import FairQueueing
from cronhare.ports.broker import LARGEST_TAKEN, Delivery, too_large

from .queues import MemoryQueue, Stored, copy_of


@attrs.define(eq=False)
class Consumer:
    """Consumes from some queues, with at most *prefetch* unsettled messages in all."""

    session: "Session"
    queues: Mapping[str, MemoryQueue]
    fair: FairQueueing
    prefetch: int
    on_delivery: Callable[[Delivery], None]
    unsettled: int = 0

    def has_room(self) -> bool:
        return self.unsettled < self.prefetch


@attrs.define(eq=False)
class Unacked:
    """A delivered message and the queue that it is requeued to."""

    stored: Stored
    queue: MemoryQueue
    consumer: Consumer | None


@attrs.define(eq=False)
class Session:
    """One client's connection.

    *wake* asks the client to read its inbox, and returns False if the client is gone. *held* is
    everything unsettled, by tag; the inbox is the part that the client has not seen yet.
    """

    wake: Callable[[], bool]
    held: dict[object, Unacked] = attrs.field(factory=dict[object, Unacked])
    inbox: deque[tuple[Consumer, Delivery]] = attrs.field(factory=deque[tuple[Consumer, Delivery]])
    consumers: list[Consumer] = attrs.field(factory=list[Consumer])
    paused: list[Consumer] = attrs.field(factory=list[Consumer])

    def settle(self, tag: object) -> Unacked | None:
        held = self.held.pop(tag, None)
        if held is not None and held.consumer is not None:
            held.consumer.unsettled -= 1
        return held

    def recall(self, which: Callable[[Unacked], bool]) -> list[Unacked]:
        tags = {tag for _, delivery in self.inbox if which(self.held[tag := delivery.tag])}
        recalled = [held for tag in tags if (held := self.settle(tag)) is not None]
        self.inbox = deque(item for item in self.inbox if item[1].tag in self.held)
        return recalled

    def remove_all(self) -> list[Unacked]:
        self.inbox.clear()
        return [held for tag in tuple(self.held) if (held := self.settle(tag)) is not None]


class Deliveries:
    """Delivers messages to clients, round robin and within their prefetch, and requeues them."""

    def __init__(self, now: Callable[[], int]) -> None:
        """*now* reads the stopwatch."""
        self._now = now
        self.sessions: dict[Session, None] = {}  # a set that remembers the order of arrival
        self._to_wake: dict[Session, None] = {}
        self._waiting: defaultdict[MemoryQueue, deque[Consumer]] = defaultdict(deque)
        self._tags = count(1)

    def open(self, session: Session) -> None:
        self.sessions[session] = None

    def settle(self, session: Session, tag: object, *, requeue: bool) -> Unacked | None:
        """Take a message from a client; None for a tag that it does not hold.

        That is no error: the message was requeued when the connection broke.
        """
        held = session.settle(tag)
        if held is not None and requeue:
            self._put_back([held])
        if held is not None and held.consumer is not None:
            self._fill(held.consumer)
        return held

    def consume(self, consumer: Consumer) -> None:
        consumer.session.consumers.append(consumer)
        for queue in consumer.queues.values():
            self._waiting[queue].append(consumer)
        self._fill(consumer)
        self._to_wake[consumer.session] = None  # to set its timer for the next expiry

    def cancel(self, session: Session) -> None:
        """Deliver no more to a client; requeue what is still in its inbox."""
        for consumer in session.consumers:
            for queue in consumer.queues.values():
                self._waiting[queue].remove(consumer)
        session.consumers.clear()
        self._put_back(session.recall(lambda _held: True))

    def pause(self, session: Session) -> None:
        session.paused += session.consumers
        self.cancel(session)

    def resume(self, session: Session) -> None:
        """Deliver to a client again, within its prefetch: what it holds counts."""
        paused, session.paused = session.paused, []
        for consumer in paused:
            self.consume(consumer)

    def leave(self, consumer: Consumer) -> None:
        """Deliver no more to one consumer of a client; what that has seen is still its own."""
        session = consumer.session
        if consumer in session.paused:
            session.paused.remove(consumer)
        if consumer in session.consumers:
            session.consumers.remove(consumer)
            for queue in consumer.queues.values():
                self._waiting[queue].remove(consumer)
        self._put_back(session.recall(lambda held: held.consumer is consumer))

    def disconnect(self, session: Session) -> None:
        """Deliver no more to a client until it resumes; requeue all that it holds."""
        self.pause(session)
        self._put_back(session.remove_all())

    def close(self, session: Session) -> None:
        self.disconnect(session)
        self.sessions.pop(session, None)

    def serve(self, queue: MemoryQueue) -> None:
        while queue.ready and (consumer := self._next_for(queue)):
            self._send(queue, consumer)

    def wake_consuming(self) -> None:
        self._to_wake.update((session, None) for session in self.sessions if session.consumers)

    def wake(self) -> None:
        """Wake the marked clients; what one that is gone held is requeued for the others."""
        while self._to_wake:
            session = next(iter(self._to_wake))
            del self._to_wake[session]
            if not session.wake():
                self.close(session)

    def _next_for(self, queue: MemoryQueue) -> Consumer | None:
        waiting = self._waiting[queue]
        for _ in range(len(waiting)):
            consumer = waiting[0]
            waiting.rotate(-1)
            if consumer.has_room():
                return consumer
        return None

    def _put_back(self, batch: Collection[Unacked]) -> None:
        # The newest first, so that each older one finds its place without a search.
        for held in sorted(batch, key=lambda held: held.stored.place, reverse=True):
            held.queue.put_back(held.stored, self._now())
        for queue in dict.fromkeys(held.queue for held in batch):
            self.serve(queue)

    def _fill(self, consumer: Consumer) -> None:
        if consumer not in consumer.session.consumers:
            return
        queues = consumer.queues
        while consumer.has_room() and (ready := [name for name in queues if queues[name].ready]):
            self._send(queues[consumer.fair.order(ready)[0]], consumer)

    def _send(self, queue: MemoryQueue, consumer: Consumer) -> None:
        session = consumer.session
        consumer.unsettled += 1
        consumer.fair.serve(queue.spec.name)
        session.inbox.append((consumer, self.deliver(session, queue, consumer)))
        self._to_wake[session] = None

    def deliver(self, session: Session, queue: MemoryQueue, consumer: Consumer | None) -> Delivery:
        stored = queue.ready.popleft()
        tag = next(self._tags)
        session.held[tag] = Unacked(stored, queue, consumer)
        message = copy_of(stored.message)
        return Delivery(
            message=msgspec.structs.replace(message, body=message.body[:LARGEST_TAKEN]),
            queue=queue.spec.name,
            redelivered=stored.redelivered,
            tag=tag,
            defect=too_large(len(message.body)),
        )
