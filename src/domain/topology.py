"""Queues, exchanges and delay lanes, as values; and which of a worker's queues is served next."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final, Self

import attrs
import msgspec

from .texts.printable import echo, shown
from .texts.words import MOST_LISTED, first_faults

MAIN_QUEUE = "cron_scheduler"
RETRY_QUEUE = "cron_scheduler_retry"
FAILED_QUEUE = "cron_scheduler_failed"
QUARANTINE_QUEUE = "cron_scheduler_quarantine"
WAITING_QUEUE = "cron_scheduler_waiting"

DEAD_LETTER_EXCHANGE = "cron_dlx"
DELIVERY_EXCHANGE = "cron_delivery"
STRAYS_EXCHANGE = "cron_strays"

#: Where what a task queue dead-letters is sorted: what was delivered too often is quarantined.
OVERDELIVERED_EXCHANGE = "cron_overdelivered"

LANES = 16
LANE_UNIT = timedelta(milliseconds=100)
LONGEST_LANE_DELAY = LANE_UNIT * (2**LANES - 1)

#: The most task queues of a process.
MOST_QUEUES = 256

#: A routing key has at most 255 bytes; a lane's bits and dots take some of them.
LONGEST_QUEUE_NAME = 255 - 2 * LANES


@attrs.frozen(kw_only=True)
class Exchange:
    """An exchange; *alternate* takes what its bindings do not route."""

    name: str
    kind: str  # direct | topic | fanout | headers
    alternate: str | None = None


@attrs.frozen(kw_only=True)
class Queue:
    """A durable queue. *ttl* and the dead-letter pair are None where it has none.

    A dead-letter key of None keeps the message's own routing key.
    """

    name: str
    ttl: timedelta | None = None
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None


@attrs.frozen(kw_only=True)
class Binding:
    """A binding from an exchange to a queue, or to another exchange.

    *headers* are what a message must have, where the exchange is of the type headers.
    """

    source: str
    target: str
    key: str
    to_exchange: bool = False
    headers: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class Topology:
    """Everything to declare, in an order that works."""

    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]

    @property
    def things(self) -> tuple[Exchange | Queue, ...]:
        return (*self.exchanges, *self.queues)


class ToQueue(msgspec.Struct, frozen=True):
    """Deliver to a task queue after *delay*, rounded up to 100 ms, the unit of the lanes."""

    queue: str = MAIN_QUEUE
    delay: timedelta = timedelta(0)


class ToFailed(msgspec.Struct, frozen=True):
    """Deliver to the queue of what failed for good."""


class ToQuarantine(msgspec.Struct, frozen=True):
    """Deliver to the queue of what no worker may run."""


class ToWaiting(msgspec.Struct, frozen=True):
    """Deliver to the queue of foreign messages that cannot be adopted for now."""


Destination = ToQueue | ToFailed | ToQuarantine | ToWaiting


def lane_exchange(lane: int) -> str:
    """Name the exchange in front of a lane.

    >>> lane_exchange(3)
    'cron_delay.03'
    """
    return f"cron_delay.{lane:02}"


def lane_queue(lane: int) -> str:
    """Name a lane's queue.

    >>> lane_queue(15)
    'cron_scheduler_retry.15'
    """
    return f"{RETRY_QUEUE}.{lane:02}"


def route(destination: Destination) -> tuple[str, str]:
    """Give the exchange and routing key for a message.

    A delay is written in binary, in units of 100 ms; each bit, highest first, is a word of the
    key. The message enters at the lane of its highest set bit.

    >>> route(ToQueue("cron_scheduler"))
    ('', 'cron_scheduler')
    >>> route(ToQueue("cron_scheduler", timedelta(milliseconds=500)))
    ('cron_delay.02', '0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.1.cron_scheduler')
    >>> route(ToFailed())
    ('cron_dlx', 'failed')

    Raises:
        ValueError: the delay is longer than the lanes can carry (6,553.5 s).
    """
    match destination:
        case ToFailed():
            return DEAD_LETTER_EXCHANGE, "failed"
        case ToQuarantine():
            return DEAD_LETTER_EXCHANGE, "quarantine"
        case ToWaiting():
            return "", WAITING_QUEUE
        case ToQueue(queue, delay):
            if delay <= timedelta(0):
                return "", queue
            if delay > LONGEST_LANE_DELAY:
                raise ValueError(
                    f"a delay of {delay} does not fit the lanes ({LONGEST_LANE_DELAY})"
                )
            bits = ".".join(f"{_units(delay):0{LANES}b}")
            return lane_exchange(_first_lane(delay)), f"{bits}.{queue}"


def first_queue(destination: Destination) -> str:
    """Name the queue that a message enters first; if it is missing, the message is returned.

    >>> first_queue(ToQueue("cron_scheduler"))
    'cron_scheduler'
    >>> first_queue(ToQueue("cron_scheduler", timedelta(milliseconds=500)))
    'cron_scheduler_retry.02'
    """
    match destination:
        case ToFailed():
            return FAILED_QUEUE
        case ToQuarantine():
            return QUARANTINE_QUEUE
        case ToWaiting():
            return WAITING_QUEUE
        case ToQueue(queue, delay):
            return lane_queue(_first_lane(delay)) if delay > timedelta(0) else queue


def topology(*, retry_delay: timedelta, queues: Iterable[str] = (MAIN_QUEUE,)) -> Topology:
    """Give the topology for these task queues.

    *retry_delay* is the TTL of `cron_scheduler_retry`, through which nacked messages come back.

    Raises:
        ValueError: a task queue cannot have that name.
    """
    names = tuple(dict.fromkeys((MAIN_QUEUE, *map(checked_queue, queues))))
    return Topology(
        exchanges=(
            Exchange(name=DEAD_LETTER_EXCHANGE, kind="direct"),
            Exchange(name=STRAYS_EXCHANGE, kind="fanout"),
            Exchange(name=OVERDELIVERED_EXCHANGE, kind="headers"),
            Exchange(name=DELIVERY_EXCHANGE, kind="topic", alternate=STRAYS_EXCHANGE),
            *(Exchange(name=lane_exchange(lane), kind="topic") for lane in range(LANES)),
        ),
        queues=(
            *(
                Queue(name=name, dead_letter_exchange=DEAD_LETTER_EXCHANGE, dead_letter_key="retry")
                for name in names
            ),
            Queue(
                name=RETRY_QUEUE,
                ttl=retry_delay,
                dead_letter_exchange="",
                dead_letter_key=MAIN_QUEUE,
            ),
            Queue(name=FAILED_QUEUE),
            Queue(name=QUARANTINE_QUEUE),
            Queue(name=WAITING_QUEUE),
            *(
                Queue(
                    name=lane_queue(lane),
                    ttl=LANE_UNIT * 2**lane,
                    dead_letter_exchange=_after(lane),
                )
                for lane in range(LANES)
            ),
        ),
        bindings=(
            Binding(source=DEAD_LETTER_EXCHANGE, target=RETRY_QUEUE, key="retry"),
            Binding(source=DEAD_LETTER_EXCHANGE, target=FAILED_QUEUE, key="failed"),
            Binding(source=DEAD_LETTER_EXCHANGE, target=QUARANTINE_QUEUE, key="quarantine"),
            Binding(source=STRAYS_EXCHANGE, target=QUARANTINE_QUEUE, key=""),
            *_overdelivered_bindings(),
            *_lane_bindings(),
            *(
                Binding(source=DELIVERY_EXCHANGE, target=name, key=f"{'*.' * LANES}{name}")
                for name in names
            ),
        ),
    )


def is_ours(queue: str) -> bool:
    """Whether a queue is one of the system's own, and no task queue."""
    ours = (RETRY_QUEUE, FAILED_QUEUE, QUARANTINE_QUEUE, WAITING_QUEUE)
    return queue in ours or queue.startswith(f"{RETRY_QUEUE}.")


#: No queue may be declared under a name that begins so (AMQP 0-9-1, queue.declare). Some are
#: internal to the broker, and publishing to a malformed one closes the connection.
BROKERS = "amq."


def checked_queue(queue: str) -> str:
    """Refuse the name of one of our own queues, and one that cannot be bound as a task queue.

    Raises:
        ValueError: a task queue cannot have that name.
    """
    if is_ours(queue):
        raise ValueError(
            f"{shown(queue)} is one of the system's own queues; name a task queue otherwise"
        )
    if queue.startswith(BROKERS):
        raise ValueError(
            f"{shown(queue)} cannot name a task queue: what begins with {BROKERS} is the broker's"
        )
    if not queue or any(sign in queue for sign in "*#"):
        raise ValueError(
            f"{echo(queue)} cannot name a queue: it is empty or has a wildcard (* or #)"
        )
    if len(queue.encode()) > LONGEST_QUEUE_NAME:
        raise ValueError(f"{echo(queue)} cannot name a queue: over {LONGEST_QUEUE_NAME} bytes")
    return queue


def is_a_queue(name: str) -> bool:
    try:
        return checked_queue(name) == name
    except ValueError:
        return False


def checked_queues(queues: Iterable[str]) -> tuple[str, ...]:
    """Check the task queues of a process, and leave out repetitions.

    Raises:
        ValueError: one cannot have its name, or there are too many.
    """
    names = tuple(dict.fromkeys(queues))
    if len(names) > MOST_QUEUES:
        raise ValueError(f"names {len(names):,} queues, more than {MOST_QUEUES}")
    return tuple(map(checked_queue, names))


def _units(delay: timedelta) -> int:
    return -(-delay // LANE_UNIT)


def _first_lane(delay: timedelta) -> int:
    return _units(delay).bit_length() - 1


def _lane_bindings() -> Iterator[Binding]:
    for lane in range(LANES):
        before = "*." * (LANES - 1 - lane)
        yield Binding(source=lane_exchange(lane), target=lane_queue(lane), key=f"{before}1.#")
        yield Binding(
            source=lane_exchange(lane), target=_after(lane), key=f"{before}0.#", to_exchange=True
        )


def _overdelivered_bindings() -> Iterator[Binding]:
    """Lead a copy of what met its delivery limit from the way to the retry queue into quarantine.

    The retry queue's own copy is dropped as it comes back, since nobody has rejected it. RabbitMQ
    3.13 and later name the last reason; those before it the first alone.
    """
    yield Binding(
        source=DEAD_LETTER_EXCHANGE, target=OVERDELIVERED_EXCHANGE, key="retry", to_exchange=True
    )
    for header in ("x-last-death-reason", "x-first-death-reason"):
        yield Binding(
            source=OVERDELIVERED_EXCHANGE,
            target=QUARANTINE_QUEUE,
            key="",
            headers=(("x-match", "all-with-x"), (header, "delivery_limit")),
        )


def _after(lane: int) -> str:
    return lane_exchange(lane - 1) if lane else DELIVERY_EXCHANGE


#: A queue of weight 3 has three runs begun for one of a queue of weight 1, while both have some.
WEIGHTS: Final = range(1, 101)

DEFAULT_WEIGHT: Final = 1

_WEIGHT: Final = re.compile(r"\d{1,3}", re.ASCII)


@attrs.frozen
class ServedQueues:
    """Task queues in their order, each with its weight.

    >>> ServedQueues.parse(["reports:3", "mail"]).weights
    {'reports': 3, 'mail': 1}
    """

    weights: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.weights)

    @property
    def texts(self) -> tuple[str, ...]:
        """Write them as they are read; a weight of 1 goes without saying.

        >>> ServedQueues({"reports": 3, "mail": 1, "at:night": 1}).texts
        ('reports:3', 'mail', 'at:night:1')
        """
        return tuple(
            name if weight == DEFAULT_WEIGHT and ":" not in name else f"{name}:{weight}"
            for name, weight in self.weights.items()
        )

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Read names, each with or without a weight behind a colon; repetitions are left out.

        Raises:
            ValueError: with every fault at once, the first of very many.
        """
        weights, faults = dict[str, int](), list[str]()
        for text in dict.fromkeys(texts):
            try:
                name, weight = _parse(text)
            except ValueError as error:
                faults.append(str(error))
                continue
            if weights.setdefault(name, weight) != weight:
                faults.append(f"{shown(name)} has two weights, {weights[name]} and {weight}")
        try:
            checked_queues(weights)
        except ValueError as error:
            faults.append(str(error))
        if faults:
            raise ValueError("; ".join(first_faults(faults, MOST_LISTED, as_fault=str)))
        return cls(weights)

    def of(self, queues: Iterable[str]) -> Mapping[str, int]:
        """Give the weights of other queues, 1 for those that are not named here."""
        return {name: self.weights.get(name, DEFAULT_WEIGHT) for name in queues}


def _parse(text: str) -> tuple[str, int]:
    name, colon, weight = text.rpartition(":")
    if not colon:
        return checked_queue(text), DEFAULT_WEIGHT
    if not _WEIGHT.fullmatch(weight) or int(weight) not in WEIGHTS:
        raise ValueError(
            f"{echo(text)}: behind its last colon a queue has its weight, a whole number from "
            f"{WEIGHTS[0]} to {WEIGHTS[-1]}"
        )
    return checked_queue(name), int(weight)


#: The cost of an item of a queue of weight 1; that of any other weight is a whole number too.
_COST: Final = math.lcm(*WEIGHTS)


class FairQueueing:
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996), each item counted as one.

    While several queues have items, their shares are as their weights, and each is served at the
    latest once the others have had theirs. A queue that was empty has saved nothing up: it comes
    next, and then has its share.

    >>> fair = FairQueueing({"reports": 3})
    >>> served = []
    >>> for _ in range(8):
    ...     served.append(fair.order(["mail", "reports"])[0])
    ...     fair.serve(served[-1])
    >>> served.count("reports"), served.count("mail")
    (6, 2)
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        """*weights* are those of queues of another weight than 1."""
        self._costs = {queue: _COST // weight for queue, weight in weights.items()}
        self._usual = _COST // DEFAULT_WEIGHT
        self._virtual_time = 0
        self._finished: dict[str, int] = {}  # the virtual times at which their last items end

    def order(self, queues: Iterable[str]) -> list[str]:
        """Put queues that have items in the order in which they are served next.

        Of equals the one comes first that was served less of late, then the one named first.
        """
        return sorted(queues, key=self._turn)

    def next(self, queues: Iterable[str]) -> str:
        """Choose among queues that have items, at least one, the one that is served next."""
        return min(queues, key=self._turn)

    def serve(self, queue: str) -> None:
        """Count an item of a queue."""
        start = max(self._virtual_time, self._finished.get(queue, 0))
        self._virtual_time = start
        self._finished[queue] = start + self._costs.get(queue, self._usual)

    def _turn(self, queue: str) -> tuple[int, int]:
        finished = self._finished.get(queue, 0)
        return max(self._virtual_time, finished), finished
