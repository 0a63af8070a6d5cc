"""One connection for publishing, from its opening to its end. Runs in the publishing thread.

Under a memory alarm the broker stops reading the connections that publish: an ack behind a blocked
publish would never arrive. So nothing is consumed here.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from itertools import takewhile
from typing import Final

from pika import BasicProperties, ConnectionParameters, SelectConnection
from pika.channel import Channel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionBlockedTimeout
from pika.frame import Method
from pika.spec import Basic

from cronhare.domain.nodes import FAREWELL
from cronhare.domain.topology import ToQueue
from cronhare.ports.broker import Envelope, Message, Published

from .wire import AmqpMessage, encode, publishing_frames

#: Unconfirmed messages at a time. More gains nothing, and more would be unknown after a crash.
WINDOW: Final = 1_000

#: Bytes that are written at once: each write is a system call, at which another thread may take
#: the interpreter's lock for its five milliseconds.
LARGEST_WRITE: Final = 64 * 1024

#: Seconds after which a channel that was refused something is replaced. Once a full queue has
#: refused a publish, RabbitMQ 3.10 refuses all for it on that channel, also once it has room.
RENEW_AFTER = 10.0

#: What is published first on a connection that is not trusted: the broker may accept connections,
#: and answer no message. It is for a queue that must not exist: it is returned, and confirmed, and
#: nothing that is due is ventured. About as long as messages of ours.
TRIAL: Final = encode(Envelope(Message(body=b"trial".ljust(512)), ToQueue("cronhare.trial")))


class Batch:
    """The messages of one call. Publishing threads settle them, the caller waits for `done`."""

    def __init__(self, messages: Sequence[AmqpMessage]) -> None:
        self.messages = messages
        self.apart: Collection[int] = ()  # the indices of those that are published apart
        self.done = Future[None]()
        self.done.set_running_or_notify_cancel()  # who stops waiting for it does not cancel it
        self._outcomes: list[Published | None] = [None] * len(messages)
        self._open = len(messages)
        self._is_abandoned = False
        self._lock = threading.Lock()

    def wants(self, index: int) -> bool:
        """Whether a message is still to be published."""
        return not self._is_abandoned and self._outcomes[index] is None

    def settle(self, index: int, outcome: Published) -> None:
        """Note the outcome of one message; the first one counts."""
        with self._lock:
            if self._outcomes[index] is not None:
                return
            self._outcomes[index] = outcome
            self._open -= 1
            is_done = not self._open
        if is_done:
            self.done.set_result(None)

    def settle_apart(self, outcome: Published) -> None:
        """Note this outcome for what is published apart and still open."""
        for index in self.apart:
            self.settle(index, outcome)

    def wait(self, seconds: float) -> None:
        """Wait for all; what is open stays under way."""
        wait([self.done], seconds)

    def outcomes(self) -> list[Published]:
        """End the call: what is open is `UNKNOWN`, and not published later."""
        self._is_abandoned = True
        return [outcome or Published.UNKNOWN for outcome in self._outcomes]


#: A message of a batch, by its index.
Item = tuple[Batch, int]


class Window:
    """The unconfirmed messages of one channel, by delivery tag. No I/O here."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._published = 0
        self._unconfirmed: OrderedDict[int, Item] = OrderedDict()
        self._returned: set[int] = set()

    @property
    def has_room(self) -> bool:
        return len(self._unconfirmed) < self._size

    @property
    def oldest(self) -> int | None:
        """The tag of the message that has waited longest for its confirm, if one waits."""
        return next(iter(self._unconfirmed), None)

    @property
    def items(self) -> Sequence[Item]:
        return [*self._unconfirmed.values()]

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


class PublisherConnection:
    """Publishes what waits, as far as the window reaches, until the connection ends.

    Other threads call `nudge` and `stop` alone.
    """

    def __init__(
        self,
        parameters: ConnectionParameters,
        waiting: deque[Item],
        *,
        timeout: float,
        window: int,
        is_trusted: bool,
        on_ready: Callable[[], None],
        on_life: Callable[[Sequence[Item]], None],
        on_silence: Callable[[Sequence[Item]], None],
    ) -> None:
        """*waiting* is shared: other threads append to it, and the connection takes from it.

        *on_ready* is called when it is open, or, where it is not *is_trusted*, when the broker has
        answered a trial on it; nothing that waits is published before.

        *on_life* is called with each sign that the broker serves us: a confirm of what waited,
        with that where the *window* is 1; or, where it is trusted, that the connection has lasted
        for *timeout* seconds.

        The connection ends if a confirm is due for one to two times *timeout* seconds;
        *on_silence* is called before with all that is unconfirmed.
        """
        self.was_open = False
        self.was_refused = False
        self.was_answered = False  # a message that waited was confirmed, or refused
        self.was_unresponsive = False  # it ended because no confirm came, or before any did
        self.ended_by: BaseException | None = None
        self._waiting = waiting
        self._timeout = timeout
        self._size = window
        self._is_on_trial = not is_trusted
        self._waited_for: int | None = None
        self._on_ready = on_ready
        self._on_life = on_life
        self._on_silence = on_silence
        self._window = Window(window)
        self._channel: Channel | None = None
        self._replaced: Channel | None = None
        self._renew_at = 0.0
        self._is_to_renew = False
        self._is_blocked = self._is_nudged = False
        self._connection = SelectConnection(
            parameters,
            on_open_callback=self._on_open,
            on_open_error_callback=self._on_end,
            on_close_callback=self._on_end,
        )
        self._connection.add_on_connection_blocked_callback(self._on_blocked)
        self._connection.add_on_connection_unblocked_callback(self._on_unblocked)
        self._loop = self._connection.ioloop

    @property
    def is_idle(self) -> bool:
        """Whether no confirm is due; any thread may ask."""
        return self._window.oldest is None

    def run(self) -> None:
        """Publish until the connection ends.

        Raises:
            Exception: what pika says (`PIKA_ERRORS`): it could not be opened.
        """
        self._loop.start()
        if not self.was_open and self.ended_by is not None:
            raise self.ended_by

    def end(self) -> None:
        """Close the loop. What was under way is unknown."""
        if not self.was_answered and self._window.oldest is not None:
            # an alarm is no fault of this connection, and all others wait for its end as well
            self.was_unresponsive |= not isinstance(self.ended_by, ConnectionBlockedTimeout)
        self._window.lose()
        self._loop.close()

    def nudge(self) -> None:
        """Look at what waits; one look is enough for all that was added before it."""
        if not self._is_nudged:
            self._is_nudged = True
            self._loop.add_callback_threadsafe(self._pump)

    def stop(self) -> None:
        self._loop.add_callback_threadsafe(self._close)

    def _close(self) -> None:
        if not self._connection.is_open:  # pika cannot close one that is being opened
            self._loop.stop()
            return
        # Under an alarm there is no answer.
        self._loop.call_later(FAREWELL, lambda: self._hang_up("no answer to a close"))
        self._connection.close()

    def _hang_up(self, why: str) -> None:
        """Close the socket at once, as pika does itself when a heartbeat is missed."""
        error = AMQPConnectionError(why)
        self._connection._terminate_stream(error)  # noqa: SLF001 - nothing public hangs up

    def _on_open(self, connection: SelectConnection) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_end(self, _connection: SelectConnection, reason: BaseException | str) -> None:
        if self.ended_by is None:
            self.ended_by = reason if isinstance(reason, BaseException) else OSError(reason)
        self._loop.stop()

    def _on_channel(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._on_channel_end)
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=lambda _frame: self._begin(channel))

    def _on_channel_end(self, channel: Channel, reason: Exception) -> None:
        """Close where the broker refused something, so that what may be missing is declared."""
        if channel is self._replaced:
            return
        self._channel = None
        self.was_refused = isinstance(reason, ChannelClosedByBroker)
        self.ended_by = reason
        if self._connection.is_open:
            self._connection.close()

    def _begin(self, channel: Channel) -> None:
        self._channel = channel
        self._renew_at = time.monotonic() + RENEW_AFTER
        if self.was_open:
            self._pump()
            return
        self.was_open = True
        if self._is_on_trial:
            self._write([self._frames(channel, Batch([TRIAL]), 0)])
        else:
            self._on_ready()
            self._pump()
            self._loop.call_later(self._timeout, lambda: self._on_life([]))
        self._watch()

    def _on_blocked(self, *_: object) -> None:
        self._is_blocked = True

    def _on_unblocked(self, *_: object) -> None:
        """Restart the time of what waits."""
        self._is_blocked, self._waited_for = False, None

    def _watch(self) -> None:
        """End a connection whose confirms do not come, unless an alarm is the reason.

        When a quorum queue is deleted while messages are on their way to it, RabbitMQ can leave
        their channel without any confirm for ever, while heartbeats go on.
        """
        oldest = self._window.oldest
        if oldest is not None and oldest == self._waited_for and not self._is_blocked:
            self.was_unresponsive = True
            if not self._is_on_trial:
                self._on_silence(self._window.items)
            # Without a close, which would not be answered, either.
            self._hang_up(f"no confirm within {self._timeout:.1f} s")
            return
        self._waited_for = oldest
        self._loop.call_later(self._timeout, self._watch)

    def _renew(self) -> None:
        """Publish on another channel, now that nothing is under way: see `RENEW_AFTER`."""
        self._is_to_renew = False
        self._replaced, self._channel = self._channel, None
        self._window = Window(self._size)
        if self._replaced is not None:
            self._replaced.close()
        self._connection.channel(on_open_callback=self._on_channel)

    def _pump(self) -> None:
        self._is_nudged = False
        channel = self._channel
        if channel is None or self._is_to_renew or self._is_on_trial:
            return
        pieces, size = list[bytes](), 0
        while self._waiting and self._window.has_room:
            batch, index = self._waiting.popleft()
            if batch.wants(index):
                pieces.append(self._frames(channel, batch, index))
                size += len(pieces[-1])
            if size >= LARGEST_WRITE:
                self._write(pieces)
                pieces, size = [], 0
        self._write(pieces)

    def _frames(self, channel: Channel, batch: Batch, index: int) -> bytes:
        """Encode a message that is published now; pika would take twice as long."""
        self._window.publish(batch, index)
        largest: int = self._connection.params.frame_max
        return publishing_frames(batch.messages[index], channel.channel_number, largest=largest)

    def _write(self, pieces: Sequence[bytes]) -> None:
        if pieces:
            self._connection._output_marshaled_frames([b"".join(pieces)])  # noqa: SLF001

    def _on_confirm(self, frame: "Method[Basic.Ack | Basic.Nack]") -> None:
        answer = frame.method
        outcome = Published.CONFIRMED if isinstance(answer, Basic.Ack) else Published.REFUSED
        if self._is_on_trial:
            self._is_on_trial = False
            self._on_ready()
        else:
            self.was_answered = True
            self._on_life(self._window.items if self._size == 1 else [])
        self._window.confirm(answer.delivery_tag, multiple=answer.multiple, outcome=outcome)
        if outcome is Published.REFUSED and time.monotonic() >= self._renew_at:
            self._is_to_renew = True
        if self._is_to_renew and self._window.oldest is None:
            self._renew()
        self._pump()

    def _on_return(
        self, _channel: Channel, method: Basic.Return, properties: BasicProperties, body: bytes
    ) -> None:
        self._window.give_back(
            exchange=method.exchange,
            key=method.routing_key,
            id=properties.message_id,
            body=body,
        )
