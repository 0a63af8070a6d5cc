"""Clients as the broker sees them: what they hold, and what is on its way to them."""

from collections import deque
from collections.abc import Callable

import attrs

from cronhare.ports.broker import Delivery

from .queues import MemoryQueue, Stored


@attrs.define(eq=False)
class Consumer:
    """Somebody who is handed the messages of some queues, at most *prefetch* unsettled in all."""

    session: "Session"
    queues: deque[MemoryQueue]
    prefetch: int
    on_delivery: Callable[[Delivery], None]
    unsettled: int = 0

    def has_room(self) -> bool:
        """Whether it may be handed one more."""
        return self.unsettled < self.prefetch


@attrs.define(eq=False)
class Unacked:
    """A message in somebody's hands, and where it goes back to; a *lost* one goes nowhere."""

    stored: Stored
    queue: MemoryQueue
    consumer: Consumer | None
    lost: bool = False


@attrs.define(eq=False)
class Session:
    """One client's connection.

    *wake* tells the client to look at its inbox; False says that the client is gone for good.
    *held* is everything unsettled, by tag; the inbox is the part that it has not seen yet.
    """

    wake: Callable[[], bool]
    held: dict[object, Unacked] = attrs.field(factory=dict[object, Unacked])
    inbox: deque[tuple[Consumer, Delivery]] = attrs.field(factory=deque[tuple[Consumer, Delivery]])
    consumers: list[Consumer] = attrs.field(factory=list[Consumer])

    def settle(self, tag: object) -> Unacked | None:
        """Let go of one message; None for a tag that means nothing (any more)."""
        held = self.held.pop(tag, None)
        if held is not None and held.consumer is not None:
            held.consumer.unsettled -= 1
        return held

    def recall(self, which: Callable[[Unacked], bool]) -> list[Unacked]:
        """Take back what is on its way and not seen yet."""
        tags = {tag for _, delivery in self.inbox if which(self.held[tag := delivery.tag])}
        recalled = [held for tag in tags if (held := self.settle(tag)) is not None]
        self.inbox = deque(item for item in self.inbox if item[1].tag in self.held)
        return recalled

    def let_go(self) -> list[Unacked]:
        """Let go of everything, as a connection does that breaks."""
        self.inbox.clear()
        return [held for tag in tuple(self.held) if (held := self.settle(tag)) is not None]
