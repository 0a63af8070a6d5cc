"""One connection for publishing, from its opening to its end. Runs in the publishing thread."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pika import BasicProperties, ConnectionParameters, SelectConnection
from pika.channel import Channel
from pika.exceptions import AMQPConnectionError, ConnectionBlockedTimeout
from pika.frame import Method
from pika.spec import Basic

from cronhare.domain.shutdown_times import FAREWELL
from cronhare.ports.broker import Published

from ..connection.backoff import RENEW_AFTER
from ..connection.buffered_writes import BufferedConnection
from ..wire.messages import PERSISTENT, AmqpMessage
from .confirms import Batch, Window

#: Unconfirmed messages at a time. More gains nothing, and more would be unknown after a crash.
WINDOW = 1_000

#: What is published first on a connection that is not trusted: the broker may accept connections,
#: and answer no message. It is for a queue that must not exist: it is returned, and confirmed, and
#: nothing that is due is ventured. About as long as messages of ours.
TRIAL: Final = AmqpMessage(
    exchange="", key="cronhare.trial", body=b"trial".ljust(512), headers={}, id=None
)


class PublisherConnection:
    """Publishes what waits, as far as the window reaches, until the connection ends.

    Other threads call `nudge` and `stop` alone.
    """

    def __init__(
        self,
        parameters: ConnectionParameters,
        waiting: deque[Batch],
        *,
        timeout: float,
        is_trusted: bool,
        on_ready: Callable[[], None],
        on_life: Callable[[], None],
        on_silence: Callable[[Sequence[AmqpMessage]], None],
    ) -> None:
        """*waiting* is shared: other threads append to it, and the connection takes from it.

        *on_ready* is called when it is open, or, where it is not *is_trusted*, when the broker has
        answered a trial on it; nothing that waits is published before.

        *on_life* is called with each sign that the broker serves us: a confirm of what waited, or,
        where it is trusted, that the connection has lasted for *timeout* seconds.

        The connection ends if a confirm is due for one to two times *timeout* seconds;
        *on_silence* is called before with all unconfirmed messages.
        """
        self.was_open = False
        self.was_refused = False
        self.was_answered = False  # a message that waited was confirmed, or refused
        self.was_unresponsive = False  # it ended because no confirm came, or before any did
        self.ended_by: BaseException | None = None
        self._waiting = waiting
        self._timeout = timeout
        self._is_on_trial = not is_trusted
        self._waited_for: int | None = None
        self._spared: int | None = None
        self._on_ready = on_ready
        self._on_life = on_life
        self._on_silence = on_silence
        self._window = Window(WINDOW)
        self._channel: Channel | None = None
        self._replaced: Channel | None = None
        self._renew_at = 0.0
        self._is_to_renew = False
        self._is_blocked = False
        self._connection = BufferedConnection(
            parameters,
            on_open_callback=self._on_open,
            on_open_error_callback=self._on_end,
            on_close_callback=self._on_end,
        )
        self._connection.add_on_connection_blocked_callback(self._on_blocked)
        self._connection.add_on_connection_unblocked_callback(self._on_unblocked)
        self._loop = self._connection.ioloop

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
        """Look at what waits."""
        self._loop.add_callback_threadsafe(self._pump)

    def stop(self) -> None:
        """Close the connection."""
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
        """The broker refused something: close, so that what may be missing is declared again."""
        if channel is self._replaced:
            return
        self._channel = None
        self.was_refused = True
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
            self._publish(channel, Batch([TRIAL]), 0)
        else:
            self._on_ready()
            self._pump()
            self._loop.call_later(self._timeout, self._on_life)
        self._watch()

    def _on_blocked(self, *_: object) -> None:
        self._is_blocked = True

    def _on_unblocked(self, *_: object) -> None:
        """Restart the time of what waits, once: repeated alarms must not hide what hangs."""
        self._is_blocked = False
        if self._window.oldest != self._spared:
            self._spared, self._waited_for = self._window.oldest, None

    def _watch(self) -> None:
        """End a connection whose confirms do not come, unless an alarm is the reason.

        When a quorum queue is deleted while messages are on their way to it, RabbitMQ can leave
        their channel without any confirm for ever, while heartbeats go on.
        """
        oldest = self._window.oldest
        if oldest is not None and oldest == self._waited_for and not self._is_blocked:
            self.was_unresponsive = True
            if not self._is_on_trial:
                self._on_silence(self._window.messages)
            # Without a close, which would not be answered, either.
            self._hang_up(f"no confirm within {self._timeout:.1f} s")
            return
        self._waited_for = oldest
        self._loop.call_later(self._timeout, self._watch)

    def _renew(self) -> None:
        """Publish on another channel, now that nothing is under way: see `RENEW_AFTER`."""
        self._is_to_renew = False
        self._replaced, self._channel = self._channel, None
        self._window = Window(WINDOW)
        if self._replaced is not None:
            self._replaced.close()
        self._connection.channel(on_open_callback=self._on_channel)

    def _pump(self) -> None:
        with self._connection.buffered():
            while self._waiting and self._window.has_room and self._channel is not None:
                if self._is_to_renew or self._is_on_trial:
                    return
                batch = self._waiting[0]
                if batch.is_out:
                    self._waiting.popleft()
                else:
                    self._publish(self._channel, batch, batch.next())

    def _publish(self, channel: Channel, batch: Batch, index: int) -> None:
        message = batch.messages[index]
        self._window.publish(batch, index)
        channel.basic_publish(
            message.exchange,
            message.key,
            message.body,
            BasicProperties(
                delivery_mode=PERSISTENT, headers=message.headers, message_id=message.id
            ),
            mandatory=True,
        )

    def _on_confirm(self, frame: "Method[Basic.Ack | Basic.Nack]") -> None:
        answer = frame.method
        outcome = Published.CONFIRMED if isinstance(answer, Basic.Ack) else Published.REFUSED
        if self._is_on_trial:
            self._is_on_trial = False
            self._on_ready()
        else:
            self.was_answered = True
            self._on_life()
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
