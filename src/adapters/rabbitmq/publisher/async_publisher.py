"""Publishing single messages from an event loop, on a connection that does nothing else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from cronhare.application.logs import say
from cronhare.domain.topology import first_queue
from cronhare.ports.broker import BrokerUnavailable, Envelope, Published

from ..connection.address import Address
from ..connection.async_connection import (
    AIO_PIKA_ERRORS,
    FramedConnection,
    close_connection,
    open_connection,
    translate_errors,
)
from ..connection.backoff import RENEW_AFTER, Backoff
from ..wire.messages import PERSISTENT, AmqpMessage, encode

log = logging.getLogger(__name__)


class AsyncPublisher:
    """Publishes and waits for the confirm. Satisfies `AsyncPublisherPort`.

    Each publish is bounded in time. It connects when it must, with growing waits while the broker
    is away; in those the answer is `UNKNOWN` at once.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout: float,
        restore: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        """*timeout* is in seconds and covers everything, connecting too.

        *restore* is called with the queues for which a message was returned: they may be deleted.
        """
        self._address = address
        self._restore = restore
        self._timeout = timeout
        self._opening = asyncio.Lock()
        self._backoff = Backoff()
        self._not_before = 0.0
        self._connection: FramedConnection | None = None
        self._channel: AbstractChannel | None = None
        self._retired: list[AbstractChannel] = []
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        self._renew_at = 0.0
        self._closed = False

    async def publish(self, envelope: Envelope) -> Published:
        """Publish one message; `UNKNOWN`, logged with the reason, while the broker is away.

        Raises:
            ValueError: it is larger than the broker takes, or its delay than the lanes carry.
            TypeError: AMQP could not carry its headers.
        """
        published = await self._bounded(encode(envelope))
        if published is Published.RETURNED:
            await self._restore([first_queue(envelope.to)])
        return published

    async def close(self) -> None:
        """Close the connection, and open no other one."""
        self._closed = True
        async with self._opening:
            await self._forget()

    async def _bounded(self, message: AmqpMessage) -> Published:
        try:
            with translate_errors(f"publishing at {self._address}"):
                async with asyncio.timeout(self._timeout):
                    return await self._publish(message)
        except BrokerUnavailable as error:
            text = f"It is unknown whether message {message.id or '(no id)'} arrived: {error}"
            say(log, logging.WARNING, "publish.unknown", text)
            return Published.UNKNOWN

    async def _publish(self, message: AmqpMessage) -> Published:
        """Publish it when no other message with its id is under way.

        aiormq takes a return for the latest message with its id: of two, of which the first is
        returned, it would report the second as returned, and the first as confirmed.
        """
        if not message.id:
            return await self._publish_now(message)
        turn = self._turns.setdefault(message.id, asyncio.Lock())
        async with turn:
            return await self._publish_now(message)

    async def _publish_now(self, message: AmqpMessage) -> Published:
        channel = await self._open()
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._send(channel, message)
        except PublishError:
            self._has_answered()
            return Published.RETURNED
        except DeliveryError:
            self._has_answered()
            self._retire(channel)
            text = (
                f"A queue took no message {message.id or '(no id)'}: it is full, or has no master"
            )
            say(log, logging.WARNING, "publish.refused", text)
            return Published.REFUSED
        except asyncio.CancelledError:  # out of time: a channel can stay silent for ever
            if loop.time() - began >= self._timeout / 2:  # else others used up its time
                self._abandon(channel)
            raise
        self._has_answered()
        return Published.CONFIRMED

    def _has_answered(self) -> None:
        """Let the next connection be made at once: an open connection alone is no success."""
        self._backoff.reset()
        self._not_before = 0.0

    async def _send(self, channel: AbstractChannel, message: AmqpMessage) -> None:
        underlay = await channel.get_underlay_channel()  # ADR 4
        await underlay.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=message.key,
            mandatory=True,
            properties=Basic.Properties(
                delivery_mode=PERSISTENT,
                headers=_for_pamqp(message.headers),
                message_id=message.id,
            ),
        )

    def _abandon(self, channel: AbstractChannel) -> None:
        """Stop using this channel and its connection."""
        if self._channel is channel:
            self._channel = None
            self._retired.clear()

    def _retire(self, channel: AbstractChannel) -> None:
        """Use another channel from now on: see `RENEW_AFTER`. Publishes may wait on this one."""
        if self._channel is channel and asyncio.get_running_loop().time() >= self._renew_at:
            self._channel = None
            self._retired.append(channel)

    async def _open(self) -> AbstractChannel:
        async with self._opening:
            if self._closed:
                raise BrokerUnavailable("this connection is closed")
            if self._channel is not None and not self._channel.is_closed:
                return self._channel
            if self._channel is None and self._retired and self._connection is not None:
                with suppress(BrokerUnavailable):
                    self._channel = await self._renewed(self._connection)
                    return self._channel
            await self._forget()
            now = asyncio.get_running_loop().time()
            if now < self._not_before:
                raise BrokerUnavailable(f"{self._address} was away a moment ago")
            self._not_before = now + self._backoff.next()
            self._channel = await self._connect()
            return self._channel

    async def _renewed(self, connection: FramedConnection) -> AbstractChannel:
        """Open another channel, and close those whose last publish is out of time."""
        *over, last = self._retired
        self._retired = [last]
        for channel in over:
            with suppress(*AIO_PIKA_ERRORS):
                await channel.close()
        return await self._channel_of(connection)

    async def _connect(self) -> AbstractChannel:
        self._connection = await open_connection(self._address, name="cronhare posting")
        return await self._channel_of(self._connection)

    async def _channel_of(self, connection: FramedConnection) -> AbstractChannel:
        with translate_errors(f"opening a channel at {self._address}"):
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        self._renew_at = asyncio.get_running_loop().time() + max(RENEW_AFTER, self._timeout)
        return channel

    async def _forget(self) -> None:
        self._retired.clear()
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            await close_connection(connection)


def _for_pamqp(value: Any) -> Any:  # noqa: ANN401 - what AMQP carries, as `encode` gives it
    """Give bytes as bytearray, for pamqp; pika takes bytes."""
    match value:
        case bytes():
            return bytearray(value)
        case dict():
            return {name: _for_pamqp(item) for name, item in value.items()}
        case list():
            return [_for_pamqp(item) for item in value]
    return value
