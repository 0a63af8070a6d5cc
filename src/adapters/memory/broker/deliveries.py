"""Messages in hands: given out, settled, taken back."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from itertools import count

import msgspec

from cronhare.ports.broker import LARGEST_TAKEN, Delivery, too_large

from .messages import copy_of
from .queues import MemoryQueue
from .sessions import Consumer, Session, Unacked


class Deliveries:
    """Hands messages to clients, round robin and within their prefetch, and takes them back.

    *now* reads the stopwatch. While the broker is *away* nobody is served.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.away = False
        self._now = now
        self._sessions: dict[Session, None] = {}  # a set that remembers the order of arrival
        self._to_wake: dict[Session, None] = {}
        self._waiting: defaultdict[MemoryQueue, deque[Consumer]] = defaultdict(deque)
        self._tags = count(1)

    def open(self, session: Session) -> None:
        """Know a client, so that it can be cut off."""
        self._sessions[session] = None

    def take(self, session: Session, queue: MemoryQueue) -> Delivery | None:
        """Hand out the head of a queue, if there is one."""
        return self._hand_out(session, queue, None) if queue.ready else None

    def settle(self, session: Session, tag: object, *, requeue: bool) -> Unacked | None:
        """Take a message out of a client's hands; None if it was not there.

        Stale tags are forgiven: their messages went back when the connection broke.
        """
        held = session.settle(tag)
        if held is not None and requeue:
            self._put_back([held])
        if held is not None and held.consumer is not None:
            self._fill(held.consumer)
        return held

    def consume(self, consumer: Consumer) -> None:
        """Begin to hand out the messages of the consumer's queues."""
        consumer.session.consumers.append(consumer)
        for queue in consumer.queues:
            self._waiting[queue].append(consumer)
        self._fill(consumer)
        self._to_wake[consumer.session] = None  # it must also learn when the next one expires

    def cancel(self, session: Session) -> None:
        """Hand out no more to a client; what it has not seen yet goes back."""
        for consumer in session.consumers:
            for queue in consumer.queues:
                self._waiting[queue].remove(consumer)
        session.consumers.clear()
        self._put_back(session.recall(lambda _held: True))

    def give_up(self, session: Session) -> None:
        """Take back all that a client holds."""
        self._put_back(session.let_go())

    def close(self, session: Session) -> None:
        """Forget a client; all that it holds goes back."""
        self.cancel(session)
        self.give_up(session)
        self._sessions.pop(session, None)

    def serve(self, queue: MemoryQueue) -> None:
        """Hand out what waits in a queue while anybody has room."""
        while queue.ready and not self.away and (consumer := self._next_for(queue)):
            self._send(queue, consumer)

    def go_away(self) -> None:
        """Cut every client off and serve none."""
        self.away = True
        for session in self._sessions:
            self._put_back(session.let_go())

    def come_back(self) -> None:
        """Serve again: whoever consumed before goes on."""
        self.away = False
        self._fill_all()

    def lose(self, queues: Collection[MemoryQueue]) -> None:
        """Lose the messages of these queues; those in somebody's hands will not come back."""
        for session in self._sessions:
            session.recall(lambda held: held.queue in queues)
            for held in session.held.values():
                held.lost = held.lost or held.queue in queues
        for queue in queues:
            queue.ready.clear()
        self._fill_all()

    def wake_consuming(self) -> None:
        """Mark all who consume as to be woken."""
        self._to_wake.update((session, None) for session in self._sessions if session.consumers)

    def wake(self) -> None:
        """Wake whoever has something; one who is gone gives back what it had, to the others."""
        while self._to_wake:
            session = next(iter(self._to_wake))
            del self._to_wake[session]
            if not session.wake():
                self.close(session)

    def _next_for(self, queue: MemoryQueue) -> Consumer | None:
        """Whose turn it is: round robin among those with room."""
        waiting = self._waiting[queue]
        for _ in range(len(waiting)):
            consumer = waiting[0]
            waiting.rotate(-1)
            if consumer.has_room():
                return consumer
        return None

    def _put_back(self, batch: Iterable[Unacked]) -> None:
        # The youngest first: each older one then takes its place before it without a search.
        kept = [held for held in batch if not held.lost]
        for held in sorted(kept, key=lambda held: held.stored.place, reverse=True):
            held.queue.put_back(held.stored, self._now())
        for queue in dict.fromkeys(held.queue for held in kept):
            self.serve(queue)

    def _fill_all(self) -> None:
        for session in self._sessions:
            for consumer in session.consumers:
                self._fill(consumer)

    def _fill(self, consumer: Consumer) -> None:
        """Fill a consumer's hands, one message of each of its queues in turn."""
        if self.away or consumer not in consumer.session.consumers:
            return
        empty = 0
        while consumer.has_room() and empty < len(consumer.queues):
            queue = consumer.queues[0]
            consumer.queues.rotate(-1)
            empty = 0 if queue.ready else empty + 1
            if queue.ready:
                self._send(queue, consumer)

    def _send(self, queue: MemoryQueue, consumer: Consumer) -> None:
        session = consumer.session
        consumer.unsettled += 1
        session.inbox.append((consumer, self._hand_out(session, queue, consumer)))
        self._to_wake[session] = None

    def _hand_out(
        self, session: Session, queue: MemoryQueue, consumer: Consumer | None
    ) -> Delivery:
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
