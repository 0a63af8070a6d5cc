"""Where messages live: queues, exchanges and lanes, as plain values; drawn in docs/design.md.

Both brokers, the real one and the in-memory one, declare what `topology()` returns.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

import attrs
import msgspec

from .texts.echo import echo, shown

MAIN_QUEUE = "cron_scheduler"
RETRY_QUEUE = "cron_scheduler_retry"
FAILED_QUEUE = "cron_scheduler_failed"
QUARANTINE_QUEUE = "cron_scheduler_quarantine"
WAITING_QUEUE = "cron_scheduler_waiting"

DEAD_LETTER_EXCHANGE = "cron_dlx"
DELIVERY_EXCHANGE = "cron_delivery"
STRAYS_EXCHANGE = "cron_strays"

LANES = 16
LANE_UNIT = timedelta(milliseconds=100)
LONGEST_LANE_DELAY = LANE_UNIT * (2**LANES - 1)

#: So many task queues a process may serve.
MOST_QUEUES = 256

#: A routing key has at most 255 bytes; the bits and their dots take the first of them.
LONGEST_QUEUE_NAME = 255 - 2 * LANES


@attrs.frozen(kw_only=True)
class Exchange:
    """An exchange; *alternate* takes what its bindings do not route."""

    name: str
    kind: str  # direct | topic | fanout
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
    """A road from an exchange to a queue, or to another exchange."""

    source: str
    target: str
    key: str
    to_exchange: bool = False


@attrs.frozen(kw_only=True)
class Topology:
    """Everything to declare, in an order that can be declared."""

    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]

    @property
    def things(self) -> tuple[Exchange | Queue, ...]:
        """All that bindings lead from and to."""
        return (*self.exchanges, *self.queues)


class ToQueue(msgspec.Struct, frozen=True):
    """Deliver to a task queue, after *delay*, rounded up to the lanes' 100 ms."""

    queue: str = MAIN_QUEUE
    delay: timedelta = timedelta(0)


class ToFailed(msgspec.Struct, frozen=True):
    """Deliver to the queue of what failed for good."""


class ToQuarantine(msgspec.Struct, frozen=True):
    """Deliver to the queue of what nobody may run."""


class ToWaiting(msgspec.Struct, frozen=True):
    """Deliver to the queue of what has no row in the ledger, and cannot be taken over for now."""


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
    """Say to which exchange, with which key, a message goes.

    A delay is written in binary, highest bit first, in units of 100 ms; each bit is a word of
    the key. The message enters at its highest set bit.

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
            return lane_exchange(_lane(delay)), f"{bits}.{queue}"


def first_queue(destination: Destination) -> str:
    """Name the queue that a message enters first: without it the broker returns the message.

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
            return lane_queue(_lane(delay)) if delay > timedelta(0) else queue


def topology(*, retry_delay: timedelta, queues: Iterable[str] = (MAIN_QUEUE,)) -> Topology:
    """Describe all that the system needs for the given task queues.

    *retry_delay* is the TTL of `cron_scheduler_retry`, the way back for whatever is nacked.

    Raises:
        ValueError: a task queue cannot have that name.
    """
    names = tuple(dict.fromkeys((MAIN_QUEUE, *map(checked_queue, queues))))
    return Topology(
        exchanges=(
            Exchange(name=DEAD_LETTER_EXCHANGE, kind="direct"),
            Exchange(name=STRAYS_EXCHANGE, kind="fanout"),
            Exchange(name=DELIVERY_EXCHANGE, kind="topic", alternate=STRAYS_EXCHANGE),
            *(Exchange(name=lane_exchange(lane), kind="topic") for lane in range(LANES)),
        ),
        queues=(
            *(
                Queue(
                    name=name,
                    dead_letter_exchange=DEAD_LETTER_EXCHANGE,
                    dead_letter_key="retry",
                )
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
            *_lane_bindings(),
            *(
                Binding(source=DELIVERY_EXCHANGE, target=name, key=f"{'*.' * LANES}{name}")
                for name in names
            ),
        ),
    )


def is_ours(queue: str) -> bool:
    """Tell a queue of the system's own from a task queue."""
    ours = (RETRY_QUEUE, FAILED_QUEUE, QUARANTINE_QUEUE, WAITING_QUEUE)
    return queue in ours or queue.startswith(f"{RETRY_QUEUE}.")


#: No queue can be declared under a name that begins so (AMQP 0-9-1, queue.declare). Some lead
#: to what is inside the broker, and one of a wrong form ends the connection that publishes to it.
BROKERS = "amq."


def checked_queue(queue: str) -> str:
    """Refuse a name that would make a task queue of one of ours, or a pattern of its binding.

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


def checked_queues(queues: Iterable[str]) -> tuple[str, ...]:
    """Give each of the task queues of a process once.

    Raises:
        ValueError: one cannot have its name, or there are too many.
    """
    names = tuple(dict.fromkeys(queues))
    if len(names) > MOST_QUEUES:
        raise ValueError(f"names {len(names):,} queues, more than {MOST_QUEUES}")
    return tuple(map(checked_queue, names))


def _units(delay: timedelta) -> int:
    return -(-delay // LANE_UNIT)


def _lane(delay: timedelta) -> int:
    """Number the lane of the highest bit of a delay."""
    return _units(delay).bit_length() - 1


def _lane_bindings() -> Iterator[Binding]:
    for lane in range(LANES):
        before = "*." * (LANES - 1 - lane)
        yield Binding(source=lane_exchange(lane), target=lane_queue(lane), key=f"{before}1.#")
        yield Binding(
            source=lane_exchange(lane), target=_after(lane), key=f"{before}0.#", to_exchange=True
        )


def _after(lane: int) -> str:
    return lane_exchange(lane - 1) if lane else DELIVERY_EXCHANGE
