"""Queues: the order of messages, and when they expire.

Times are whole microseconds of the clock's stopwatch: sums of lanes must be exact, and a wall
clock that is set back must not delay a message.
"""

from collections import deque
from datetime import timedelta
from itertools import count

import attrs

from cronhare.domain.topology import Queue
from cronhare.ports.broker import Message

MICROSECOND = timedelta(microseconds=1)


@attrs.define(eq=False)
class Stored:
    """A message in a queue: its route, its place, and when it expires."""

    message: Message
    exchange: str
    key: str
    place: int = 0
    expires: int | None = None
    redelivered: bool = False


class MemoryQueue:
    """A queue: its messages in their order.

    >>> queue = MemoryQueue(Queue(name="ants"))
    >>> first, second = (Stored(Message(body=body), "", "ants") for body in (b"1", b"2"))
    >>> queue.append(first, now=0)
    >>> queue.append(second, now=0)
    >>> queue.put_back(queue.ready.popleft(), now=0)
    >>> [stored.message.body for stored in queue.ready]
    [b'1', b'2']
    """

    def __init__(self, spec: Queue) -> None:
        self.spec = spec
        self.ready: deque[Stored] = deque()
        self._ttl = None if spec.ttl is None else spec.ttl // MICROSECOND
        self._places = count()

    def append(self, stored: Stored, now: int) -> None:
        """Add a new message at the tail."""
        stored.place = next(self._places)
        if self._ttl is not None:
            stored.expires = now + self._ttl
        self.ready.append(stored)

    def put_back(self, stored: Stored, now: int) -> None:
        """Requeue a message at the place that it had, marked as redelivered."""
        stored.redelivered = True
        if stored.expires is not None:
            stored.expires = max(stored.expires, now)  # it did not expire while it was delivered
        ahead: list[Stored] = []
        while self.ready and self.ready[0].place < stored.place:
            ahead.append(self.ready.popleft())
        self.ready.appendleft(stored)
        self.ready.extendleft(reversed(ahead))
