"""Messages in their queues, and what of them AMQP can carry."""

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count

import attrs

from cronhare.domain.topology import Queue
from cronhare.ports.broker import Message

MICROSECOND = timedelta(microseconds=1)

_AS_THEY_ARE = frozenset({str, float, bool, bytes, type(None)})
_INTEGERS = range(-(2**63), 2**63)


def copy_of(message: Message) -> Message:
    """Copy a message with all its mutable parts.

    Raises:
        TypeError: AMQP could not carry a header.
    """
    return Message(body=bytes(message.body), headers=_table(message.headers), id=message.id)


def _table(headers: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value if type(value) in _AS_THEY_ARE else _value(name, value)
        for name, value in headers.items()
    }


def _value(name: str, value: object) -> object:
    match value:
        case dict():
            return _table(value)
        case list():
            return [_value(name, item) for item in value]
        case datetime():
            return value.replace(microsecond=0)  # an AMQP timestamp counts seconds
        case int() if value in _INTEGERS:
            return value
        case str():
            return str.__str__(value)  # the text of an enum's member, not the member
        case _ if type(value) in _AS_THEY_ARE:
            return value
        case _:
            raise TypeError(f"header {name}: AMQP cannot carry {value!r:.80}")


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

    Times are whole microseconds of the clock's stopwatch: sums of lanes must be exact, and a wall
    clock that is set back must not delay a message.
    """

    def __init__(self, spec: Queue) -> None:
        self.spec = spec
        self.ready: deque[Stored] = deque()
        self._ttl = None if spec.ttl is None else spec.ttl // MICROSECOND
        self._places = count()

    def append(self, stored: Stored, now: int) -> None:
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
