"""The connection that consumes, and the consumer of one queue, on a channel of its own.

So a refusal costs that queue alone. Nothing is repaired: what is lost gives way to another. Nothing
is published here, either: a broker under an alarm would stop reading our acks.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

import aio_pika
from aio_pika.abc import AbstractChannel, TimeoutType
from aio_pika.exceptions import AMQPChannelError, AMQPError, ConnectionClosed
from aiormq.abc import AbstractChannel as Underlay
from pamqp.commands import Basic
from yarl import URL

from cronhare.domain.addresses import Host
from cronhare.domain.nodes import FAREWELL
from cronhare.ports.broker import BrokerUnavailable

from .client import ANSWER_TIMEOUT, CONNECT_TIMEOUT, Address, describe, why_unreachable
from .deliveries import Acks, Deliveries, Incoming
from .wire import BASIC, END, HEAD, HEARTBEAT, METHOD

#: RuntimeError is the parent of aio-pika's "channel closed".
AIO_PIKA_ERRORS = (AMQPError, OSError, RuntimeError, TimeoutError)

_SIGN_OF_LIFE: Final = HEAD.pack(HEARTBEAT, 0, 0) + END

#: Seconds after which the client is told that its broker lives, while only deliveries arrive.
_LONGEST_SILENCE: Final = 1.0

_SETTLE: Final = struct.Struct(">BHIHHQB")
_ACK, _NACK = 80, 120


class QueueRefused(BrokerUnavailable):
    """The broker answers, and refuses what was asked of a channel."""


class _Protocol(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, deliveries: Deliveries) -> None:
        super().__init__(reader, loop=asyncio.get_running_loop())
        self._reader = reader
        self._deliveries = deliveries
        self._loop_time = asyncio.get_running_loop().time
        self._last_at = 0.0

    def data_received(self, data: bytes) -> None:
        try:
            others = self._deliveries.split(data)
        except ConnectionResetError as error:
            self._reader.set_exception(error)
            return
        now = self._loop_time()
        if not others and now - self._last_at > _LONGEST_SILENCE:
            others = _SIGN_OF_LIFE  # the client takes a long silence for a dead broker
        if others:
            self._last_at = now
            super().data_received(others)


class DeliveringConnection(aio_pika.Connection):
    """A connection whose deliveries and acks pass the client by. It connects once.

    Not aio-pika's robust one: after a reconnect it can look open and consume nothing for ever.
    """

    def __init__(self, url: URL, **how: Any) -> None:  # noqa: ANN401 - aio-pika's own
        super().__init__(url, **how)
        #: By the numbers of their channels: those that may settle, and are handed deliveries. The
        #: number of a channel that was closed is used again, for another consumer.
        self.consumers: dict[int, Consumer] = {}
        self._writer: asyncio.StreamWriter | None = None
        self.kwargs["transport_factory"] = self

    async def connect(self, timeout: TimeoutType = None) -> None:  # noqa: ASYNC109 - aio-pika's own
        """Connect; where that fails, or is cancelled, nothing of it is left."""
        try:
            await super().connect(timeout)
        except BaseException:
            self._hang_up()
            await super().close()
            raise

    async def create(
        self,
        url: URL,
        *,
        ssl_context_provider: Any,  # noqa: ANN401 - the client's own
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect the stream for the client, with our protocol between the socket and it."""
        context = await ssl_context_provider.get_context() if url.scheme == "amqps" else None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Protocol(reader, Deliveries(self._delivered, self._closing))
        transport, _ = await loop.create_connection(
            lambda: protocol, url.host or "", url.port or 0, ssl=context
        )
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer

    async def close(self, exc: Any = ConnectionClosed) -> None:  # noqa: ANN401 - aio-pika's own
        """Close it. What was not settled goes back to the heads of its queues, in order.

        A broker that does not answer within `FAREWELL` is hung up on. So is one for whose answer
        nobody waits any longer: else the client would, in a task of its own, and the process could
        not end before.
        """
        for consumer in self.consumers.values():
            consumer.acks.flush()
        self.consumers.clear()  # nothing may follow on a channel that the client closes
        hanging_up = self.loop.call_later(FAREWELL, self._hang_up)
        try:
            with suppress(*AIO_PIKA_ERRORS):
                await super().close(exc)
        except asyncio.CancelledError:
            self._hang_up()
            raise
        finally:
            hanging_up.cancel()

    def write(self, frame: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.transport.write(frame)

    def _delivered(self, channel: int, incoming: Incoming) -> None:
        if (consumer := self.consumers.get(channel)) is not None:
            consumer.receive(incoming)

    def _closing(self, channel: int) -> None:
        self.consumers.pop(channel, None)

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()


class Consumer:
    """Consumes one queue until it is lost. Deliveries and acks pass aio-pika by (ADR 4)."""

    def __init__(
        self,
        connection: DeliveringConnection,
        channel: AbstractChannel,
        underlay: Underlay,
        queue: str,
        *,
        on_delivery: "Callable[[Consumer, Incoming], None]",
        on_lost: Callable[[], None],
    ) -> None:
        """Nothing is consumed yet. *on_lost* is called once, when it is lost."""
        self.queue = queue
        self.number = underlay.number
        self.acks = Acks(self._ack)
        self.lost_by: str | None = None
        self.is_lost_alone = False  # and not with its connection
        self.latest = 0  # the tag of the latest delivery
        self.passed_over: int | None = None  # that, when messages waited, and it had none
        self._connection = connection
        self._channel = channel
        self._underlay = underlay
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._name: str | None = None
        connection.consumers[self.number] = self
        channel.close_callbacks.add(self._on_closing)
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)  # aio-pika does not report it

    @classmethod
    async def open(
        cls,
        connection: DeliveringConnection,
        queue: str,
        *,
        prefetch: int,
        on_delivery: "Callable[[Consumer, Incoming], None]",
        on_lost: Callable[[], None],
    ) -> Self:
        with translate_errors(f"opening a channel for {queue}"):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                channel = await connection.channel(publisher_confirms=False)
                await channel.set_qos(prefetch_count=prefetch)
                underlay = await channel.get_underlay_channel()
        return cls(connection, channel, underlay, queue, on_delivery=on_delivery, on_lost=on_lost)

    @property
    def is_consuming(self) -> bool:
        return self._name is not None and self.lost_by is None

    async def consume(self) -> None:
        """Begin to consume.

        Raises:
            QueueRefused: the queue is gone, or exclusive to another.
            BrokerUnavailable: it did not work; the connection may be lost.
        """
        with self._asking(f"consuming {self.queue}"):
            answer = await self._underlay.basic_consume(self.queue, _unused, timeout=ANSWER_TIMEOUT)
        self._name = str(answer.consumer_tag)

    async def cancel(self) -> None:
        """Consume no more; what has been delivered can still be settled."""
        name, self._name = self._name, None
        if name is not None:
            with self._asking(f"consuming {self.queue} no more"):
                await self._underlay.basic_cancel(name, timeout=ANSWER_TIMEOUT)

    def receive(self, incoming: Incoming) -> None:
        self.latest = incoming.tag
        self.acks.arrived(incoming.tag)
        self._on_delivery(self, incoming)

    def nack(self, tag: int, *, requeue: bool) -> None:
        """Give a delivery back, or hand it to its queue's dead-letter exchange."""
        self.acks.given_back(tag)
        self._settle(_NACK, tag, requeue << 1)

    async def close(self) -> None:
        """End its channel. What was not settled goes back to the head of the queue, in order."""
        self.acks.flush()
        self._end()
        with suppress(BrokerUnavailable), translate_errors("closing a channel"):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._channel.close()

    def lose(self, reason: str, *, alone: bool) -> None:
        if self.lost_by is None:
            self.lost_by, self.is_lost_alone = reason, alone
            self._on_lost()

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        try:
            with translate_errors(doing):
                yield
        except BaseException:
            # The client closes a channel on which it has no answer: an ack behind the close would
            # cost the connection.
            self._end()
            raise

    def _end(self) -> None:
        if self._connection.consumers.get(self.number) is self:
            del self._connection.consumers[self.number]

    def _ack(self, tag: int, multiple: bool) -> None:  # noqa: FBT001
        self._settle(_ACK, tag, int(multiple))

    def _settle(self, method: int, tag: int, bits: int) -> None:
        if self._connection.consumers.get(self.number) is self:
            size = _SETTLE.size - HEAD.size
            frame = _SETTLE.pack(METHOD, self.number, size, BASIC, method, tag, bits)
            self._connection.write(frame + END)

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        """The broker cancels a consumer when its queue is deleted or moves to another node."""
        self.lose(f"the broker cancelled consumer {frame.consumer_tag}", alone=True)

    def _on_closing(self, _channel: object, error: BaseException | None) -> None:
        reason = describe(error) if error is not None else "the channel was closed"
        self.lose(reason, alone=isinstance(error, AMQPChannelError))


async def _unused(_: object) -> None:
    """Stands for a consumer at the client, which is handed no delivery."""


async def open_connection(address: Address, *, name: str) -> DeliveringConnection:
    """Connect to the first node that answers, within a bound for each.

    Raises:
        BrokerUnavailable: no node answers; the text is about the last one.
    """
    *others, last = address.nodes()
    for node in others:
        with suppress(BrokerUnavailable):
            return await _connect(address, node, name, within=CONNECT_TIMEOUT)
    return await _connect(address, last, name, within=2 * CONNECT_TIMEOUT)


async def _connect(
    address: Address, node: Host, name: str, *, within: float
) -> DeliveringConnection:
    with translate_errors(f"connecting to {address}", why_unreachable):
        # in a thread: the file system of a certificate may hang
        context = await asyncio.to_thread(address.context)
        async with asyncio.timeout(within):
            return await aio_pika.connect(
                address.for_aio_pika(node),
                connection_class=DeliveringConnection,
                ssl_context=context,
                client_properties={"connection_name": name},
            )


@contextmanager
def translate_errors(doing: str, said: Callable[[BaseException], str] = describe) -> Iterator[None]:
    """Turn aio-pika's errors into `BrokerUnavailable` or `QueueRefused`, with the text of *said*.

    When a connection breaks, aio-pika cancels what waits for it: only a cancellation of our own
    task goes on as one. It goes on even where aio-pika dropped it: its `asyncio.wait_for` forgets,
    in Python 3.11, a cancellation that arrives together with the answer (python/cpython#86296).
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0

    def is_cancelled() -> bool:
        return task is not None and task.cancelling() > before

    try:
        yield
    except AIO_PIKA_ERRORS as error:
        kind = QueueRefused if isinstance(error, AMQPChannelError) else BrokerUnavailable
        raise kind(f"{doing}: {said(error)}") from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise BrokerUnavailable(f"{doing}: the connection broke") from error
    except Exception as error:
        if type(error) is not Exception:
            raise
        # So aiormq refuses what is asked of a channel that was closed meanwhile without a reason.
        raise BrokerUnavailable(f"{doing}: the connection was closed") from error
    if is_cancelled():
        raise asyncio.CancelledError
