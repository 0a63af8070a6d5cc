"""The messages on their way: published, and not yet confirmed. No I/O here."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile

from cronhare.ports.broker import Published

from ..wire.messages import AmqpMessage


class Batch:
    """What one call publishes. Filled in by the sending thread, awaited by the caller."""

    def __init__(self, parcels: Sequence[AmqpMessage]) -> None:
        self.parcels = parcels
        self._next = 0
        self._abandoned = False
        self._outcomes: list[Published | None] = [None] * len(parcels)
        self._open = len(parcels)
        self._done = threading.Event()
        if not parcels:
            self._done.set()

    @property
    def is_out(self) -> bool:
        """Whether nothing of it is left to publish."""
        return self._abandoned or self._next == len(self.parcels)

    @property
    def has_begun(self) -> bool:
        """Whether any of it was published."""
        return self._next > 0

    def next(self) -> int:
        """Take the index of the next one to publish."""
        self._next += 1
        return self._next - 1

    def settle(self, index: int, outcome: Published) -> None:
        """Say what became of one message; the first word counts."""
        if self._outcomes[index] is None:
            self._outcomes[index] = outcome
            self._open -= 1
            if not self._open:
                self._done.set()

    def give_up(self) -> None:
        """Nothing more will be known."""
        self._abandoned = True
        self._done.set()

    def is_done_within(self, seconds: float) -> bool:
        """Wait for all, and leave what is open under way."""
        return self._done.wait(seconds)

    def wait(self, seconds: float) -> list[Published]:
        """Wait for all; what is open after so many seconds is `UNKNOWN`, and not sent any more."""
        self._done.wait(seconds)
        self._abandoned = True
        return [outcome or Published.UNKNOWN for outcome in self._outcomes]


class Window:
    """The unconfirmed messages of one channel, by the number that the broker counts them with."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._published = 0
        self._ahead: OrderedDict[int, tuple[Batch, int]] = OrderedDict()
        self._returned: set[int] = set()

    @property
    def has_room(self) -> bool:
        """Whether one more may be published before the next confirm."""
        return len(self._ahead) < self._size

    @property
    def oldest(self) -> int | None:
        """The number of the message that has waited longest for its confirm, if one waits."""
        return next(iter(self._ahead), None)

    @property
    def parcels(self) -> Sequence[AmqpMessage]:
        """All that is unconfirmed."""
        return [batch.parcels[index] for batch, index in self._ahead.values()]

    def publish(self, batch: Batch, index: int) -> None:
        """Count a message that is published now."""
        self._published += 1
        self._ahead[self._published] = batch, index

    def confirm(self, tag: int, *, multiple: bool, outcome: Published) -> None:
        """Take the broker's word for one message, or for all up to this one."""
        upto = takewhile(lambda each: each <= tag, self._ahead) if multiple else (tag,)
        for each in list(upto):
            if (sent := self._ahead.pop(each, None)) is None:
                continue
            batch, index = sent
            was_returned = each in self._returned
            self._returned.discard(each)
            batch.settle(index, Published.RETURNED if was_returned else outcome)

    def give_back(self, *, exchange: str, key: str, id: str | None, body: bytes) -> None:  # noqa: A002
        """Note a returned message. Its confirm follows, as RabbitMQ promises.

        A return does not say which publish it answers. Of two equal messages under way both come
        back, so the first that fits will do.
        """
        for tag, (batch, index) in self._ahead.items():
            parcel = batch.parcels[index]
            if tag not in self._returned and (
                (parcel.id, parcel.exchange, parcel.key) == (id, exchange, key)
                and parcel.body == body
            ):
                self._returned.add(tag)
                return

    def lose(self) -> None:
        """The channel is gone: nothing will be known of what was under way."""
        for batch, index in self._ahead.values():
            batch.settle(index, Published.UNKNOWN)
        self._ahead.clear()
        self._returned.clear()
