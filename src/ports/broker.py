"""The broker: a doorbell that may lose or repeat any message."""

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import attrs
import msgspec

from cronhare.domain.lifecycle.archive import LARGEST_FAILED
from cronhare.domain.topology import Destination


class BrokerUnavailable(Exception):
    """The broker could not be asked; the outcome of what was under way is unknown."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A body with its headers; always persistent. *id* names it in logs and for deduplication."""

    body: bytes
    headers: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    id: str | None = None


class Envelope(msgspec.Struct, frozen=True):
    """A message and its destination."""

    message: Message
    to: Destination


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """Why a delivery cannot be read as it was sent; it can be settled like any other.

    *size* is that of the whole body. *properties* are the raw ones if they cannot be decoded.
    """

    reason: str
    size: int
    properties: bytes = b""


#: Bytes of a body that a consumer is given at most: no message that we read is longer.
LARGEST_TAKEN: Final = LARGEST_FAILED


def too_large(size: int) -> Defect | None:
    """Name the defect of a body that is larger than `LARGEST_TAKEN`."""
    if size <= LARGEST_TAKEN:
        return None
    return Defect(reason=f"the body has {size} bytes, {LARGEST_TAKEN} are allowed", size=size)


@attrs.frozen(kw_only=True)
class Delivery:
    """A message that is ours until it is acked or nacked, or the consumer closes.

    *tag* belongs to the adapter. With a *defect* the message is what could be read of it.
    """

    message: Message
    queue: str
    redelivered: bool
    tag: object = attrs.field(repr=False)
    defect: Defect | None = None


class Published(enum.Enum):
    """What is known after a publish."""

    CONFIRMED = "confirmed"  # a queue has it
    RETURNED = "returned"  # no queue wanted it: a fault in the topology
    REFUSED = "refused"  # nacked: a queue cannot take it now; a copy may still arrive
    UNKNOWN = "unknown"  # no answer: it may or may not arrive, now or later


class BrokerPort(Protocol):
    """The blocking side: schedulers declare and publish through it.

    Safe to share between threads.
    """

    def declare(self, queues: Iterable[str]) -> None:
        """Declare the topology for these task queues. Safe to repeat.

        Raises:
            BrokerUnavailable: nothing is known; repeat the call.
        """

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        """Publish all, in order, bounded in time, and say of each what is known.

        Never raises for a broker that is away: that is `UNKNOWN`.
        """

    def is_reachable(self) -> bool:
        """Whether the broker can be reached, as far as is known without waiting.

        Asking regularly reveals each lasting outage. While it is False a publish sends nothing.
        """

    def close(self) -> None:
        """Let go of the connection."""


class AsyncBrokerPort(Protocol):
    """The asynchronous side: the worker consumes and publishes through it, from one event loop."""

    async def consume(
        self,
        queues: Sequence[str],
        *,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """Begin to hand deliveries to *on_delivery*, at most *prefetch* unsettled at a time.

        Messages of one queue come in order; those of a consumer that vanished come first, marked
        *redelivered*. While several queues have messages, their shares are as their *weights*, 1 by
        default: none starves. Each message is delivered, with a `Defect` if it cannot be read, or
        is larger than `LARGEST_TAKEN`. A queue that cannot be consumed is tried again, and does not
        hold up the others. A second call adds a consumer with its own *prefetch*.

        Raises:
            BrokerUnavailable: none of them is consumed; repeat the call.
        """

    async def consume_apart(self, queue: str, *, on_delivery: Callable[[Delivery], None]) -> None:
        """Begin to consume a queue beside all others, one delivery at a time, until `leave`.

        A queue that cannot be consumed is `left_out`, and tried again.

        Raises:
            BrokerUnavailable: it was not begun; repeat the call.
        """

    async def leave(self, queue: str) -> None:
        """Consume no more what `consume_apart` has begun; what is in hand can still be settled."""

    def is_consuming(self) -> bool:
        """Whether all that `consume` began is consumed, proven within half a minute."""

    def left_out(self) -> Collection[str]:
        """Name the queues that were begun and cannot be consumed for now; any thread may ask."""

    async def pause(self) -> None:
        """Take no more deliveries. Those in hand can still be settled."""

    async def resume(self) -> None:
        """Take deliveries again, as before `pause`; a broker that is away is asked until it is."""

    async def ack(self, delivery: Delivery) -> None:
        """Settle a delivery. Its failure is harmless: the message comes again."""

    async def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a delivery back (*requeue*), or hand it to its queue's dead-letter exchange."""

    async def publish(self, envelope: Envelope) -> Published:
        """Publish one message, bounded in time. Never raises for a broker that is away."""

    async def close(self) -> None:
        """Stop consuming: what was not settled goes back to its queue."""
