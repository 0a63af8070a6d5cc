"""Where a message goes: exchanges, bindings and queues as declared, and what AMQP can carry."""

import re
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import count

import attrs

from cronhare.domain.topology import Binding, Exchange, Queue, Topology, route
from cronhare.ports.broker import Envelope, Message

MICROSECOND = timedelta(microseconds=1)

#: Bytes that RabbitMQ 3.x takes; 4.x takes 16 MiB by default.
LARGEST_BODY = 128 * 2**20

_AS_THEY_ARE = frozenset({str, bool, bytes, type(None)})
_INTEGERS = range(-(2**63), 2**63)
_ROUTES_CACHED = 4096

_Matches = Callable[[str], bool]


def routed_copy(envelope: Envelope) -> tuple[str, str, Message]:
    """Return a message's exchange, its routing key, and a copy of it.

    Raises:
        ValueError: its body is larger than the broker takes, or its delay than the lanes carry.
        TypeError: AMQP could not carry a header.
    """
    size = len(envelope.message.body)
    if size > LARGEST_BODY:
        raise ValueError(f"a body of {size} bytes; the broker takes {LARGEST_BODY}")
    return *route(envelope.to), copy_of(envelope.message)


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


def topic(pattern: str) -> _Matches:
    """Compile a topic pattern: `*` is one word, `#` any number of words, none included.

    >>> topic("report.*.#")("report.sales")
    True
    >>> topic("report.*.#")("report")
    False
    """
    # Every word, the last one too, is closed by a dot, so that `#` may stand for nothing.
    forms = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = pattern.split(".") if pattern else ()
    regex = re.compile("".join(forms.get(word, re.escape(word) + r"\.") for word in words))
    return lambda key: regex.fullmatch(f"{key}." if key else "") is not None


#: The types of exchange, and how each compiles the key of a binding.
_KINDS: dict[str, Callable[[str], _Matches]] = {
    "direct": lambda pattern: lambda key: key == pattern,
    "topic": topic,
    "fanout": lambda _pattern: lambda _key: True,
    # By the headers that a broker adds at a delivery limit: this one has none.
    "headers": lambda _pattern: lambda _key: False,
}


class DeclaredTopology:
    """All exchanges, queues and bindings. They stay as they were declared first.

    Routes are cached until the next declaration, as a busy broker asks for the same few.
    """

    def __init__(self) -> None:
        self.queues: dict[str, MemoryQueue] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._bindings: dict[str, dict[Binding, _Matches]] = {}  # by source
        self._reached = lru_cache(_ROUTES_CACHED)(self._walk)
        self._timed: list[MemoryQueue] = []

    def add(self, topology: Topology) -> None:
        """Add all that is missing; what is there stays as it is."""
        for exchange in topology.exchanges:
            self._exchanges.setdefault(exchange.name, exchange)
        for spec in topology.queues:
            if spec.name not in self.queues:
                self.queues[spec.name] = MemoryQueue(spec)
        self._timed = [queue for queue in self.queues.values() if queue.spec.ttl is not None]
        for binding in topology.bindings:
            matches = _KINDS[self._exchanges[binding.source].kind](binding.key)
            self._bindings.setdefault(binding.source, {}).setdefault(binding, matches)
        self._reached.cache_clear()

    def route(self, exchange: str, key: str) -> list[MemoryQueue]:
        """Find the queues that a message reaches, each once; none by an unknown exchange."""
        names = self._reached(exchange, key) if exchange else (key,)
        return [queue for name in names if (queue := self.queues.get(name)) is not None]

    def next_to_expire(self) -> tuple[int, MemoryQueue] | None:
        first: tuple[int, MemoryQueue] | None = None
        for queue in self._timed:
            if queue.ready:  # first, as this is hot and most are empty
                expires = queue.ready[0].expires  # no later message expires before the head
                if expires is not None and (first is None or expires < first[0]):
                    first = expires, queue
        return first

    def _walk(self, exchange: str, key: str) -> tuple[str, ...]:
        reached: dict[str, None] = {}
        seen = {exchange}
        ahead = deque([exchange])
        while ahead:
            name = ahead.popleft()
            bindings = self._bindings.get(name, {}).items()
            taken = [binding for binding, matches in bindings if matches(key)]
            reached.update((one.target, None) for one in taken if not one.to_exchange)
            further = [one.target for one in taken if one.to_exchange]
            known = self._exchanges.get(name)
            if not taken and known is not None and known.alternate:
                further = [known.alternate]
            ahead.extend(dict.fromkeys(each for each in further if each not in seen))
            seen.update(further)
        return tuple(reached)
