"""One connection for publishing, from its opening to its end. Runs in the publishing thread.

Each target, a queue or the exchange of a lane, has a channel of its own. A quorum queue whose
process hangs stops the channel on which something is published to it, and with it all that is
published there: none of it is confirmed (RabbitMQ 3.10). So only that target waits.

Under a memory alarm the broker stops reading the connections that publish: an ack behind a blocked
publish would never arrive. So nothing is consumed here.
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from itertools import takewhile
from typing import Final

from pika import ConnectionParameters, SelectConnection
from pika.channel import Channel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionBlockedTimeout
from pika.frame import Method
from pika.spec import Basic

from cronhare.application.outages import Outage
from cronhare.domain.nodes import FAREWELL
from cronhare.domain.topology import ToQueue
from cronhare.ports.broker import Envelope, Message, Published

from .client import LeftOut
from .wire import AmqpMessage, encode, publishing_frames

log = logging.getLogger(__name__)

#: Unconfirmed messages of a target at a time. More gains nothing, and more would be unknown after a
#: crash. Of some 200 for a channel that hangs, RabbitMQ stops reading the whole connection.
WINDOW: Final = 1_000

#: Bytes that are written at once: each write is a system call, at which another thread may take
#: the interpreter's lock for its five milliseconds.
LARGEST_WRITE: Final = 64 * 1024

#: Channels in use at a time, and at most half of those that the broker allows, which are 2,047 by
#: default: one that hangs counts until it is closed. Idle ones are closed to make room.
MOST_CHANNELS: Final = 500

#: Seconds after which a channel that was refused something is replaced. Once a full queue has
#: refused a publish, RabbitMQ 3.10 refuses all for it on that channel, also once it has room.
RENEW_AFTER = 10.0

#: Seconds without a confirm after which a target that has hung hangs still.
PROBE_TIMEOUT: Final = 1.0

#: Asks whether the broker answers at all: on a new connection, before anything that is due is
#: ventured, and when a target is silent. It is for a queue that must not exist: it is returned, and
#: confirmed. About as long as messages of ours.
TRIAL: Final = encode(Envelope(Message(body=b"trial".ljust(512)), ToQueue("cronhare.trial")))


class Batch:
    """The messages of one call. The publishing thread settles them, the caller waits for `done`."""

    def __init__(self, messages: Sequence[AmqpMessage]) -> None:
        self.messages = messages
        self.done = Future[None]()
        self.done.set_running_or_notify_cancel()  # who stops waiting for it does not cancel it
        self._outcomes: list[Published | None] = [None] * len(messages)
        self._open = len(messages)
        self._is_abandoned = False
        self._lock = threading.Lock()

    def wants(self, index: int) -> bool:
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

    def wait(self, seconds: float) -> None:
        wait([self.done], seconds)

    def outcomes(self) -> list[Published]:
        """End the call: what is open is `UNKNOWN`, and not published later."""
        self._is_abandoned = True
        return [outcome or Published.UNKNOWN for outcome in self._outcomes]


#: A message of a batch, by its index.
Item = tuple[Batch, int]


class Road:
    """The way to one target: its channel, what waits for it, and what it has not confirmed."""

    def __init__(self, target: str, *, window: int = WINDOW) -> None:
        self.target = target
        self.window = window
        self.waiting: deque[Item] = deque()
        self.channel: Channel | None = None
        self.is_open = self.is_tried = False
        self.opened_at = self._owed_since = 0.0
        self._was_owed: int | None = None
        self._published = 0
        self._unconfirmed: OrderedDict[int, Item] = OrderedDict()  # by delivery tag
        self._returned: set[int] = set()

    @property
    def has_room(self) -> bool:
        return len(self._unconfirmed) < self.window

    @property
    def oldest(self) -> int | None:
        """The tag of the message that has waited longest for its confirm, if one waits."""
        return next(iter(self._unconfirmed), None)

    @property
    def owed(self) -> int | None:
        """The tag for which the broker has owed an answer longest; 0 stands for the channel."""
        return self.oldest if self.is_open else 0

    def silence(self, now: float, *, is_blocked: bool) -> float:
        """Say for how many seconds the same answer has been owed, as far as this was asked."""
        owed = self.owed
        if owed is None or owed != self._was_owed or is_blocked:
            self._was_owed, self._owed_since, self.is_tried = owed, now, False
        return now - self._owed_since

    def publish(self, batch: Batch, index: int) -> None:
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

    def lose(self, outcome: Published) -> None:
        """The channel is gone, or hangs: this is the outcome of all unconfirmed messages."""
        for batch, index in self._unconfirmed.values():
            batch.settle(index, outcome)
        self._unconfirmed.clear()
        self._returned.clear()


class PublisherConnection:
    """Publishes what waits, as far as the windows reach, until the connection ends.

    Other threads call `nudge` and `stop` alone.
    """

    def __init__(
        self,
        parameters: ConnectionParameters,
        waiting: deque[Item],
        hanging: dict[str, LeftOut],
        *,
        timeout: float,
        on_ready: Callable[[], None],
    ) -> None:
        """*waiting* is shared: other threads append to it, and the connection takes from it.

        A target that confirms nothing for *timeout* seconds, while the broker answers a trial, is
        kept among those *hanging*. What is for it is `REFUSED`, but for a message now and then,
        until it confirms one. If the broker does not answer the trial either, the connection ends,
        and each target that owed a confirm is sent a message alone at first.

        *on_ready* is called when the broker has answered a trial, or says that an alarm blocks it.
        Nothing that waits is published before: it would be taken from other replicas, again and
        again, by a broker that opens connections and serves nobody.
        """
        self.was_open = False
        self.was_refused = False
        self.was_unresponsive = False  # it ended because no answer came, or before any did
        self.ended_by: BaseException | None = None
        self._was_answered = False  # a message that waited was confirmed, or refused
        self._ready_at: float | None = None
        self._waiting = waiting
        self._hanging = hanging
        self._timeout = timeout
        self._on_ready = on_ready
        self._is_blocked = self._is_nudged = False
        self._trial = Road(TRIAL.target)
        self._roads = {TRIAL.target: self._trial}
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
    def was_ready(self) -> bool:
        return self._ready_at is not None

    @property
    def has_lived(self) -> bool:
        """Whether the broker has served us: a connection alone may be lost over and over."""
        lasted = self._ready_at and time.monotonic() - self._ready_at >= self._timeout
        return self._was_answered or bool(lasted)

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
        roads = self._roads.values()
        if not self._was_answered and any(each.oldest is not None for each in roads):
            # an alarm is no fault of this connection, and all others wait for its end as well
            self.was_unresponsive |= not isinstance(self.ended_by, ConnectionBlockedTimeout)
        self._trial.waiting.clear()
        for road in roads:
            self._waiting.extendleft(reversed(road.waiting))  # for the next connection
            road.lose(Published.UNKNOWN)
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

    def _on_open(self, _connection: SelectConnection) -> None:
        self.was_open = True
        self._open(self._trial)
        self._try()
        self._watch()

    def _begin(self) -> None:
        if not self.was_ready:
            self._ready_at = time.monotonic()
            self._on_ready()
            self._pump()

    def _on_end(self, _connection: SelectConnection, reason: BaseException | str) -> None:
        if self.ended_by is None:
            self.ended_by = reason if isinstance(reason, BaseException) else OSError(reason)
        self._loop.stop()

    def _on_blocked(self, *_: object) -> None:
        self._is_blocked = True
        self._begin()

    def _on_unblocked(self, *_: object) -> None:
        self._is_blocked = False

    def _open(self, road: Road) -> None:
        self._connection.channel(on_open_callback=partial(self._on_channel, road))

    def _on_channel(self, road: Road, channel: Channel) -> None:
        if self._roads.get(road.target) is not road:  # it was abandoned meanwhile
            channel.close()
            return
        road.channel = channel
        channel.add_on_close_callback(partial(self._on_channel_end, road))
        channel.add_on_return_callback(
            lambda _channel, method, properties, body: road.give_back(
                exchange=method.exchange,
                key=method.routing_key,
                id=properties.message_id,
                body=body,
            )
        )
        channel.confirm_delivery(
            partial(self._on_confirm, road), callback=lambda _frame: self._on_confirming(road)
        )

    def _on_confirming(self, road: Road) -> None:
        road.is_open, road.opened_at = True, time.monotonic()
        self._send(road)

    def _on_channel_end(self, road: Road, channel: Channel, reason: Exception) -> None:
        """Close where the broker refused something, so that what may be missing is declared."""
        if road.channel is channel:  # else it was replaced
            if self.ended_by is None:  # else the other channels end, as the connection is closed
                self.was_refused = isinstance(reason, ChannelClosedByBroker)
                self.ended_by = reason
            if self._connection.is_open:
                self._connection.close()

    def _try(self) -> None:
        if not self._trial.waiting and self._trial.oldest is None:
            self._trial.waiting.append((Batch([TRIAL]), 0))
            self._send(self._trial)

    def _watch(self) -> None:
        """Look for targets that confirm nothing, unless an alarm is the reason.

        When a quorum queue is deleted while messages are on their way to it, RabbitMQ can leave
        their channel without any confirm for ever, while heartbeats go on.
        """
        now = time.monotonic()
        roads = [*self._roads.values()]
        silences = [road.silence(now, is_blocked=self._is_blocked) for road in roads]
        if silences[0] >= self._timeout:  # of the trial
            self.was_unresponsive = True
            for road in roads[1:]:  # so much was for one that hangs that nothing is read
                if road.oldest is not None:
                    self._hanging.setdefault(road.target, _left_out(road.target))
            # Without a close, which would not be answered, either.
            self._hang_up(f"no answer within {self._timeout:.1f} s")
            return
        for road, silence in zip(roads[1:], silences[1:], strict=True):
            limit = PROBE_TIMEOUT if road.target in self._hanging else self._timeout
            if silence >= limit / 2 and not road.is_tried:
                road.is_tried = True
                self._try()
            elif silence >= limit and self._trial.owed is None:
                self._hangs(road, now)
        self._loop.call_later(min(PROBE_TIMEOUT, self._timeout) / 2, self._watch)

    def _hangs(self, road: Road, now: float) -> None:
        self._abandon(road)
        road.lose(Published.REFUSED)
        for batch, index in road.waiting:
            batch.settle(index, Published.REFUSED)
        hung = self._hanging.setdefault(road.target, _left_out(road.target))
        text = f"{road.target} confirms nothing, and what is for it waits in the ledger"
        hung.fails(now, text, "its channel is silent")

    def _abandon(self, road: Road) -> None:
        del self._roads[road.target]
        channel, road.channel = road.channel, None
        if channel is not None:
            channel.close()

    def _pump(self) -> None:
        self._is_nudged = False
        if not self.was_ready:
            return
        roads = dict[str, Road]()
        while self._waiting:
            batch, index = item = self._waiting.popleft()
            target = batch.messages[index].target
            road = self._roads.get(target) or self._road_to(target)
            if road is None:
                batch.settle(index, Published.REFUSED)
            else:
                road.waiting.append(item)
                roads[target] = road
        for road in roads.values():
            self._send(road)

    def _road_to(self, target: str) -> Road | None:
        """Open a channel, if there is room; to a target that hangs, now and then alone."""
        hung = self._hanging.get(target)
        if hung is not None and hung.retry_at is not None and time.monotonic() < hung.retry_at:
            return None
        most = min(MOST_CHANNELS, self._connection.params.channel_max // 2)
        if len(self._roads) >= most:
            for each in [*self._roads.values()][1:]:  # all but the trial's
                if each.owed is None and not each.waiting:
                    self._abandon(each)
        if len(self._roads) >= most:
            return None
        road = self._roads[target] = Road(target, window=WINDOW if hung is None else 1)
        self._open(road)
        return road

    def _send(self, road: Road) -> None:
        channel = road.channel
        if channel is None or not road.is_open:
            return
        number, largest = channel.channel_number, self._connection.params.frame_max
        pieces, size = list[bytes](), 0
        while road.waiting and road.has_room:
            batch, index = road.waiting.popleft()
            if batch.wants(index):
                road.publish(batch, index)
                # pika would take twice as long to encode it
                pieces.append(publishing_frames(batch.messages[index], number, largest=largest))
                size += len(pieces[-1])
            if size >= LARGEST_WRITE:
                self._write(pieces)
                pieces, size = [], 0
        self._write(pieces)

    def _write(self, pieces: Sequence[bytes]) -> None:
        if pieces:
            self._connection._output_marshaled_frames([b"".join(pieces)])  # noqa: SLF001

    def _on_confirm(self, road: Road, frame: "Method[Basic.Ack | Basic.Nack]") -> None:
        answer = frame.method
        outcome = Published.CONFIRMED if isinstance(answer, Basic.Ack) else Published.REFUSED
        road.confirm(answer.delivery_tag, multiple=answer.multiple, outcome=outcome)
        if road is self._trial:
            self._begin()
            return
        self._was_answered = True
        if (hung := self._hanging.pop(road.target, None)) is not None:
            hung.outage.is_over()
            road.window = WINDOW
        is_old = time.monotonic() >= road.opened_at + RENEW_AFTER
        if outcome is Published.REFUSED and is_old and road.oldest is None:
            self._abandon(road)
            self._waiting.extendleft(reversed(road.waiting))  # for the channel that replaces it
            self._pump()
        else:
            self._send(road)


def _left_out(target: str) -> LeftOut:
    return LeftOut(Outage(log, f"Publishing to {target} again", back="queue.back"))
