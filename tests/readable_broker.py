"""A `PikaBroker` whose queues can be read, message by message."""

from contextlib import suppress
from typing import Any

from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import PIKA_ERRORS, Address, connect
from cronhare.adapters.rabbitmq.wire import COUNTS
from cronhare.ports.broker import Delivery, Message

#: Seconds. Between two calls no heartbeat is answered, so the broker must not expect one soon.
HEARTBEAT = 600


class ReadablePikaBroker(PikaBroker):
    """Reads on a connection of its own, which publishes nothing. Satisfies `ReadableBroker`."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401 - as it takes them
        super().__init__(url, **options)
        self._reading_from = Address.parse(f"{url}?heartbeat={HEARTBEAT}")
        self._reader: BlockingConnection | None = None
        self._channels: dict[str, BlockingChannel] = {}

    def receive(self, queue: str) -> Delivery | None:
        try:
            method, properties, body = self._channel(queue).basic_get(queue)
        except ChannelClosedByBroker:  # there is no such queue
            return None
        if method is None or properties is None:
            return None
        tag = self._channels[queue], method.delivery_tag
        headers = properties.headers or {}
        message = Message(
            body=body or b"",
            headers={name: each for name, each in headers.items() if name not in COUNTS},
            id=properties.message_id,
        )
        return Delivery(message=message, queue=queue, redelivered=method.redelivered, tag=tag)

    def ack(self, delivery: Delivery) -> None:
        tag: Any = delivery.tag
        tag[0].basic_ack(tag[1])

    def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        tag: Any = delivery.tag
        tag[0].basic_nack(tag[1], requeue=requeue)

    def close(self) -> None:
        super().close()
        if self._reader is not None:
            with suppress(*PIKA_ERRORS):
                self._reader.close()

    def _channel(self, queue: str) -> BlockingChannel:
        """One for each queue: one that is missing costs the channel, and what it holds."""
        if self._reader is None or not self._reader.is_open:
            self._channels.clear()
            self._reader = connect(self._reading_from, name="cronhare reading")
        channel = self._channels.get(queue)
        if channel is None or not channel.is_open:
            channel = self._channels[queue] = self._reader.channel()
        return channel
