"""A `PikaBroker` whose queues can be read, message by message."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import attrs
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from pika.spec import NOT_FOUND

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import PIKA_ERRORS, Address, connect, why_unreachable
from cronhare.adapters.rabbitmq.wire import COUNTS
from cronhare.ports.broker import BrokerUnavailable, Delivery, Message

#: Seconds. Between two calls no heartbeat is answered, so the broker must not expect one soon.
HEARTBEAT = 600


@attrs.frozen(eq=False)
class _Tag:
    channel: BlockingChannel
    number: int


class ReadablePikaBroker(PikaBroker):
    """Reads on a connection of its own, which publishes nothing. Satisfies `ReadableBroker`."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401 - as it takes them
        super().__init__(url, **options)
        self._reader = QueueReader(Address.parse(f"{url}?heartbeat={HEARTBEAT}"))

    def receive(self, queue: str) -> Delivery | None:
        """Take the next message of a queue; None if there is none, or no such queue."""
        return self._reader.receive(queue)

    def ack(self, delivery: Delivery) -> None:
        """Settle a message that `receive` gave; any other is left alone, and comes again."""
        self._reader.settle(delivery.tag, acked=True)

    def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a message back (*requeue*), or hand it to its queue's dead-letter exchange."""
        self._reader.settle(delivery.tag, acked=False, requeue=requeue)

    def close(self) -> None:
        """Close all connections. What was received and not settled comes again."""
        super().close()
        self._reader.close()


class QueueReader:
    """Takes and settles messages. Safe to share between threads; connects when it must."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._connection: BlockingConnection | None = None
        self._channels: dict[str, BlockingChannel] = {}
        self._held: set[_Tag] = set()
        self._closed = False

    def receive(self, queue: str) -> Delivery | None:
        """Take the next message of a queue; None if there is none, or no such queue.

        Raises:
            BrokerUnavailable: the broker cannot be asked, or this reader is closed.
        """
        with self._lock, self._own_errors(f"reading {queue}"):
            channel = self._channel(queue)
            try:
                method, properties, body = channel.basic_get(queue)
            except ChannelClosedByBroker as refusal:
                if refusal.reply_code == NOT_FOUND:
                    return None
                raise
            if method is None or properties is None:
                return None
            tag = _Tag(channel, method.delivery_tag)
            self._held.add(tag)
            return Delivery(
                message=decode(body or b"", properties.headers, properties.message_id),
                queue=queue,
                redelivered=method.redelivered,
                tag=tag,
            )

    def settle(self, tag: object, *, acked: bool, requeue: bool = False) -> None:
        """Ack or nack what `receive` gave; anything else, or a second time, does nothing."""
        with self._lock:
            if not isinstance(tag, _Tag) or tag not in self._held:
                return
            self._held.discard(tag)
            with suppress(*PIKA_ERRORS):  # the message comes again
                if acked:
                    tag.channel.basic_ack(tag.number)
                else:
                    tag.channel.basic_nack(tag.number, requeue=requeue)

    def close(self) -> None:
        """Close. What was not settled goes back to the head of its queue, in order."""
        with self._lock:
            self._closed = True
            with suppress(*PIKA_ERRORS):
                for channel in {tag.channel for tag in self._held}:
                    channel.basic_nack(0, multiple=True, requeue=True)
            self._forget()

    def _channel(self, queue: str) -> BlockingChannel:
        """One channel per queue: a queue that is missing costs the channel, and what it holds."""
        if self._closed:
            raise BrokerUnavailable("this connection is closed")
        if self._connection is None or not self._connection.is_open:
            self._forget()
            self._connection = connect(self._address, name="cronhare reading")
        channel = self._channels.get(queue)
        if channel is None or not channel.is_open:
            channel = self._channels[queue] = self._connection.channel()
        return channel

    @contextmanager
    def _own_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except PIKA_ERRORS as error:
            self._forget()
            raise BrokerUnavailable(
                f"{doing} at {self._address}: {why_unreachable(error)}"
            ) from error

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        self._channels.clear()
        self._held.clear()
        if connection is not None:
            with suppress(*PIKA_ERRORS):
                connection.close()


def decode(body: bytes, headers: Mapping[str, object] | None, id: str | None) -> Message:  # noqa: A002 - the field's name
    """Decode a message into plain Python: dict, list, str, int, aware datetime."""
    plain = {name: _decoded(value) for name, value in (headers or {}).items() if name not in COUNTS}
    return Message(body=body, headers=plain, id=id)


def _decoded(value: object) -> object:
    match value:
        case dict():
            return {str(key): _decoded(item) for key, item in value.items()}
        case list():
            return [_decoded(item) for item in value]
        case bytearray():
            return bytes(value)
        case int() if type(value) is not bool:
            return int(value)  # pika has a class of its own for the longer ones
        case datetime():
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        case _:
            return value
