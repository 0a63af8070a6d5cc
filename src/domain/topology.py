"""Queues, exchanges and delay lanes, as values; and which of a worker's queues is served next."""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

import attrs
import msgspec

from .texts.printable import echo, shown

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


@attrs.frozen
class Exchange:
    """An exchange; *alternate* takes what its bindings do not route."""

    name: str
    kind: str  # direct | topic | fanout | headers
    alternate: str | None = None


@attrs.frozen
class Queue:
    """A durable queue; a dead-letter key of None keeps the message's own routing key."""

    name: str
    ttl: timedelta | None = None
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None


@attrs.frozen
class Binding:
    """A binding to a queue or another exchange; an exchange of headers looks for *headers*."""

    source: str
    target: str
    key: str
    to_exchange: bool = False
    headers: tuple[tuple[str, str], ...] = ()


@attrs.frozen
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
    """What failed for good."""


class ToQuarantine(msgspec.Struct, frozen=True):
    """What no worker may run."""


class ToWaiting(msgspec.Struct, frozen=True):
    """Foreign messages that cannot be adopted for now."""


Destination = ToQueue | ToFailed | ToQuarantine | ToWaiting


def lane_exchange(lane: int) -> str:
    return f"cron_delay.{lane:02}"


def lane_queue(lane: int) -> str:
    return f"{RETRY_QUEUE}.{lane:02}"


def route(destination: Destination) -> tuple[str, str]:
    """Give the exchange and routing key for a message.

    A delay is written in binary, in units of 100 ms; each bit, highest first, is a word of the
    key. The message enters at the lane of its highest set bit.

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
            units = -(-delay // LANE_UNIT)
            bits = ".".join(f"{units:0{LANES}b}")
            return lane_exchange(units.bit_length() - 1), f"{bits}.{queue}"


def first_queue(destination: Destination) -> str:
    """Name the queue that a message enters first; if it is missing, the message is returned.

    >>> first_queue(ToQueue("cron_scheduler"))
    'cron_scheduler'
    >>> first_queue(ToQueue("cron_scheduler", timedelta(milliseconds=500)))
    'cron_scheduler_retry.02'
    """
    exchange, key = route(destination)
    if exchange == DEAD_LETTER_EXCHANGE:
        return f"{MAIN_QUEUE}_{key}"
    return exchange.replace("cron_delay", RETRY_QUEUE) or key


def topology(*, retry_delay: timedelta, queues: Iterable[str] = (MAIN_QUEUE,)) -> Topology:
    """Give the topology for these task queues.

    *retry_delay* is the TTL of `cron_scheduler_retry`, through which nacked messages come back.

    Raises:
        ValueError: a task queue cannot have that name.
    """
    names = tuple(dict.fromkeys((MAIN_QUEUE, *map(checked_queue, queues))))
    return Topology(
        exchanges=(
            Exchange(DEAD_LETTER_EXCHANGE, "direct"),
            Exchange(STRAYS_EXCHANGE, "fanout"),
            Exchange(OVERDELIVERED_EXCHANGE, "headers"),
            Exchange(DELIVERY_EXCHANGE, "topic", alternate=STRAYS_EXCHANGE),
            *(Exchange(lane_exchange(lane), "topic") for lane in range(LANES)),
        ),
        queues=(
            *(Queue(name, None, DEAD_LETTER_EXCHANGE, "retry") for name in names),
            Queue(RETRY_QUEUE, retry_delay, "", MAIN_QUEUE),
            *(Queue(name) for name in (FAILED_QUEUE, QUARANTINE_QUEUE, WAITING_QUEUE)),
            *(Queue(lane_queue(lane), LANE_UNIT * 2**lane, _after(lane)) for lane in range(LANES)),
        ),
        bindings=(
            Binding(DEAD_LETTER_EXCHANGE, RETRY_QUEUE, "retry"),
            Binding(DEAD_LETTER_EXCHANGE, FAILED_QUEUE, "failed"),
            Binding(DEAD_LETTER_EXCHANGE, QUARANTINE_QUEUE, "quarantine"),
            Binding(STRAYS_EXCHANGE, QUARANTINE_QUEUE, ""),
            # A copy of what met its delivery limit is led to quarantine from the way to the retry
            # queue. That queue's own is dropped as it comes back, since nobody has rejected it.
            # RabbitMQ 3.13 and later name the last reason; those before it the first alone.
            Binding(DEAD_LETTER_EXCHANGE, OVERDELIVERED_EXCHANGE, "retry", to_exchange=True),
            *(
                Binding(
                    OVERDELIVERED_EXCHANGE,
                    QUARANTINE_QUEUE,
                    "",
                    headers=(("x-match", "all-with-x"), (header, "delivery_limit")),
                )
                for header in ("x-last-death-reason", "x-first-death-reason")
            ),
            *_lane_bindings(),
            *(Binding(DELIVERY_EXCHANGE, name, f"{'*.' * LANES}{name}") for name in names),
        ),
    )


def _lane_bindings() -> Iterator[Binding]:
    for lane in range(LANES):
        exchange, before = lane_exchange(lane), "*." * (LANES - 1 - lane)
        yield Binding(exchange, lane_queue(lane), f"{before}1.#")
        yield Binding(exchange, _after(lane), f"{before}0.#", to_exchange=True)


def _after(lane: int) -> str:
    return lane_exchange(lane - 1) if lane else DELIVERY_EXCHANGE


def is_ours(queue: str) -> bool:
    ours = (RETRY_QUEUE, FAILED_QUEUE, QUARANTINE_QUEUE, WAITING_QUEUE)
    return queue in ours or queue.startswith(f"{RETRY_QUEUE}.")


def checked_queue(queue: str) -> str:
    """Refuse, by a `ValueError`, a name that no task queue can have."""
    if fault := fault_of_queue(queue):
        raise ValueError(fault)
    return queue


def is_a_queue(name: str) -> bool:
    return fault_of_queue(name) is None


def fault_of_queue(queue: str) -> str | None:
    if is_ours(queue):
        return f"{shown(queue)} is one of the system's own queues; name a task queue otherwise"
    if queue.startswith("amq."):  # reserved (AMQP 0-9-1, queue.declare)
        return f"{shown(queue)} cannot name a task queue: what begins with amq. is the broker's"
    if not queue or any(sign in queue for sign in "*#"):
        return f"{echo(queue)} cannot name a queue: it is empty or has a wildcard (* or #)"
    if len(queue.encode()) > LONGEST_QUEUE_NAME:
        return f"{echo(queue)} cannot name a queue: over {LONGEST_QUEUE_NAME} bytes"
    return None


#: A queue of weight 3 has three runs begun for one of a queue of weight 1, while both have some.
WEIGHTS: Final = range(1, 101)

DEFAULT_WEIGHT: Final = 1

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
        self._virtual_time = 0
        self._finished: dict[str, int] = {}  # the virtual times at which their last items end

    def order(self, queues: Iterable[str]) -> list[str]:
        """Put queues that have items, at least one, in the order in which they are served next.

        Of equals the one comes first that was served less of late, then the one named first.
        """
        return sorted(queues, key=self._turn)

    def serve(self, queue: str) -> None:
        self._virtual_time = max(self._virtual_time, self._finished.get(queue, 0))
        self._finished[queue] = self._virtual_time + self._costs.get(queue, _COST)

    def _turn(self, queue: str) -> tuple[int, int]:
        finished = self._finished.get(queue, 0)
        return max(self._virtual_time, finished), finished
