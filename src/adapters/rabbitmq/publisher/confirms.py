"""Messages that are published and not yet confirmed. No I/O here."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile

from cronhare.ports.broker import Published

from ..wire.messages import AmqpMessage


class Batch:
    """The messages of one call. The publishing thread settles them, the caller waits."""

    def __init__(self, messages: Sequence[AmqpMessage]) -> None:
        self.messages = messages
        self._next = 0
        self._abandoned = False
        self._outcomes: list[Published | None] = [None] * len(messages)
        self._open = len(messages)
        self._done = threading.Event()
        if not messages:
            self._done.set()

    @property
    def is_out(self) -> bool:
        """Whether nothing of it is left to publish."""
        return self._abandoned or self._next == len(self.messages)

    @property
    def has_begun(self) -> bool:
        """Whether any of it was published."""
        return self._next > 0

    def next(self) -> int:
        """Take the index of the next one to publish."""
        self._next += 1
        return self._next - 1

    def settle(self, index: int, outcome: Published) -> None:
        """Note the outcome of one message; the first one counts."""
        if self._outcomes[index] is None:
            self._outcomes[index] = outcome
            self._open -= 1
            if not self._open:
                self._done.set()

    def give_up(self) -> None:
        """End the wait: nothing more will be known."""
        self._abandoned = True
        self._done.set()

    def is_done_within(self, seconds: float) -> bool:
        """Wait for all; what is open stays under way."""
        return self._done.wait(seconds)

    def wait(self, seconds: float) -> list[Published]:
        """Wait for all; what is open after *seconds* is `UNKNOWN`, and not published later."""
        self._done.wait(seconds)
        self._abandoned = True
        return [outcome or Published.UNKNOWN for outcome in self._outcomes]


class Window:
    """The unconfirmed messages of one channel, by delivery tag."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._published = 0
        self._unconfirmed: OrderedDict[int, tuple[Batch, int]] = OrderedDict()
        self._returned: set[int] = set()

    @property
    def has_room(self) -> bool:
        """Whether one more may be published before the next confirm."""
        return len(self._unconfirmed) < self._size

    @property
    def oldest(self) -> int | None:
        """The tag of the message that has waited longest for its confirm, if one waits."""
        return next(iter(self._unconfirmed), None)

    @property
    def messages(self) -> Sequence[AmqpMessage]:
        """All that are unconfirmed."""
        return [batch.messages[index] for batch, index in self._unconfirmed.values()]

    def publish(self, batch: Batch, index: int) -> None:
        """Give the next tag to a message that is published now."""
        self._published += 1
        self._unconfirmed[self._published] = batch, index

    def confirm(self, tag: int, *, multiple: bool, outcome: Published) -> None:
        """Settle the message of a tag, or, with *multiple*, all up to it."""
        upto = takewhile(lambda each: each <= tag, self._unconfirmed) if multiple else (tag,)
        for each in list(upto):
            if (sent := self._unconfirmed.pop(each, None)) is None:
                continue
            batch, index = sent
            was_returned = each in self._returned
            self._returned.discard(each)
            batch.settle(index, Published.RETURNED if was_returned else outcome)

    def give_back(self, *, exchange: str, key: str, id: str | None, body: bytes) -> None:  # noqa: A002
        """Note a returned message. Its confirm follows, as RabbitMQ promises.

        A return has no tag. Of two equal messages both are returned, so the first that fits is
        taken.
        """
        for tag, (batch, index) in self._unconfirmed.items():
            message = batch.messages[index]
            if tag not in self._returned and (
                (message.id, message.exchange, message.key) == (id, exchange, key)
                and message.body == body
            ):
                self._returned.add(tag)
                return

    def lose(self) -> None:
        """The channel is gone: the outcome of all unconfirmed messages is `UNKNOWN`."""
        for batch, index in self._unconfirmed.values():
            batch.settle(index, Published.UNKNOWN)
        self._unconfirmed.clear()
        self._returned.clear()
