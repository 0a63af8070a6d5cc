"""Clients of the broker: their consumers, inbox and unacked messages."""

from collections import deque
from collections.abc import Callable, Mapping

import attrs

from cronhare.domain.queueing.fair_queueing import FairQueueing
from cronhare.ports.broker import Delivery

from .queues import MemoryQueue, Stored


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
        """Whether its prefetch allows one more."""
        return self.unsettled < self.prefetch


@attrs.define(eq=False)
class Unacked:
    """A delivered message and the queue that it is requeued to, unless it is *lost*."""

    stored: Stored
    queue: MemoryQueue
    consumer: Consumer | None
    lost: bool = False


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
        """Remove one message; None for an unknown tag."""
        held = self.held.pop(tag, None)
        if held is not None and held.consumer is not None:
            held.consumer.unsettled -= 1
        return held

    def recall(self, which: Callable[[Unacked], bool]) -> list[Unacked]:
        """Remove the messages that are still in the inbox."""
        tags = {tag for _, delivery in self.inbox if which(self.held[tag := delivery.tag])}
        recalled = [held for tag in tags if (held := self.settle(tag)) is not None]
        self.inbox = deque(item for item in self.inbox if item[1].tag in self.held)
        return recalled

    def remove_all(self) -> list[Unacked]:
        """Remove everything, as when a connection breaks."""
        self.inbox.clear()
        return [held for tag in tuple(self.held) if (held := self.settle(tag)) is not None]
