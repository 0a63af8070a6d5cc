"""The connection that consumes: deliveries are taken whole out of its bytes, and acks written.

The client, aio-pika, would decode each delivery, put its frames through two queues and give it a
task; and it would lose the connection over bytes of a publisher's that it cannot decode. So it is
asked all questions, and sees no delivery: 1.7 times the executions a second (ADR 4).
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import aio_pika
import msgspec
from aio_pika.abc import TimeoutType
from aio_pika.exceptions import AMQPChannelError, AMQPError, ConnectionClosed
from yarl import URL

from cronhare.domain.addresses import Host
from cronhare.domain.nodes import FAREWELL
from cronhare.ports.broker import LARGEST_TAKEN, BrokerUnavailable, Defect, Message, too_large

from .client import CONNECT_TIMEOUT, Address, describe, why_unreachable
from .wire import (
    BASIC,
    BODY,
    END,
    HEAD,
    HEADER,
    HEARTBEAT,
    METHOD,
    UnreadableProperties,
    read_properties,
)

#: RuntimeError is the parent of aio-pika's "channel closed".
AIO_PIKA_ERRORS = (AMQPError, OSError, RuntimeError, TimeoutError)

_DELIVER: Final = b"\x00\x3c\x00\x3c"
_CLOSES: Final = (b"\x00\x14\x00\x28", b"\x00\x14\x00\x29")  # a channel's close and close-ok
_METHOD_ID: Final = slice(HEAD.size, HEAD.size + 4)
_SIGN_OF_LIFE: Final = HEAD.pack(HEARTBEAT, 0, 0) + END

_CONTENT: Final = struct.Struct(">HHQ")
_TAG: Final = struct.Struct(">Q?")
_SETTLE: Final = struct.Struct(">BHIHHQB")
_ACK, _NACK = 80, 120

#: Seconds after which the client is told that its broker lives, while only deliveries arrive.
_LONGEST_SILENCE: Final = 1.0


class QueueRefused(BrokerUnavailable):
    """The broker answers, and refuses what was asked of a channel."""


class Incoming(msgspec.Struct, kw_only=True):
    """A delivery, as far as its frames have arrived."""

    tag: int
    redelivered: bool
    properties: bytes | None = None
    size: int = 0
    arrived: int = 0
    parts: list[bytes] = []

    def message(self) -> tuple[Message, Defect | None]:
        """Decode it; a message with a defect has what could be read."""
        body, raw = b"".join(self.parts), self.properties or b""
        try:
            read = read_properties(raw)
        except UnreadableProperties as error:
            return Message(body=body), Defect(reason=str(error), size=self.size, properties=raw)
        return Message(body=body, headers=read.headers, id=read.id), too_large(self.size)


class Deliveries:
    """Takes deliveries out of a stream of frames. No I/O here.

    Of a body that is larger than we read the beginning is kept.
    """

    def __init__(
        self, delivered: Callable[[int, Incoming], None], closing: Callable[[int], None]
    ) -> None:
        """Both are given the number of a channel; *closing* of one that is closed."""
        self._delivered = delivered
        self._closing = closing
        self._rest = b""
        self._under_way: dict[int, Incoming] = {}  # by channel

    def split(self, data: bytes) -> bytes:
        """Hand out the deliveries that are complete; give the frames of everything else.

        Raises:
            ConnectionResetError: what the broker sends is no AMQP.
        """
        data, place, others = self._rest + data, 0, list[bytes]()
        while len(data) - place >= HEAD.size:
            if data.startswith(b"AMQP", place):  # it does not speak our version
                others.append(data[place:])
                place = len(data)
                break
            kind, channel, size = HEAD.unpack_from(data, place)
            end = place + HEAD.size + size + len(END)
            if end > len(data):
                break
            frame = data[place:end]
            place = end
            if not self._takes(kind, channel, frame):
                others.append(frame)
        self._rest = data[place:]
        return b"".join(others)

    def _takes(self, kind: int, channel: int, frame: bytes) -> bool:
        """Whether a frame belongs to a delivery."""
        try:
            if kind == METHOD:
                return self._takes_method(channel, frame)
            incoming = self._under_way.get(channel)
            if incoming is None or kind not in (HEADER, BODY):
                return False
            payload = frame[HEAD.size : -len(END)]
            if kind == HEADER:
                incoming.size = _CONTENT.unpack_from(payload)[2]
                incoming.properties = payload[_CONTENT.size :]
            else:
                if (room := LARGEST_TAKEN - incoming.arrived) > 0:
                    incoming.parts.append(payload[:room])
                incoming.arrived += len(payload)
        except (struct.error, IndexError) as error:
            raise ConnectionResetError(f"the broker's delivery ends too early: {error}") from error
        if incoming.properties is not None and incoming.arrived >= incoming.size:
            del self._under_way[channel]
            self._delivered(channel, incoming)
        return True

    def _takes_method(self, channel: int, frame: bytes) -> bool:
        method = frame[_METHOD_ID]
        self._under_way.pop(channel, None)  # nothing follows of a delivery that another method cuts
        if method == _DELIVER:
            after_name = _METHOD_ID.stop + 1 + frame[_METHOD_ID.stop]
            tag, redelivered = _TAG.unpack_from(frame, after_name)
            self._under_way[channel] = Incoming(tag=tag, redelivered=redelivered)
            return True
        if method in _CLOSES:
            self._closing(channel)
        return False


class _Protocol(asyncio.StreamReaderProtocol):
    """Hands deliveries out, and the client the rest."""

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


class Receiver(Protocol):
    """Takes the deliveries of one channel, and settles them."""

    number: int  # the channel's

    def receive(self, incoming: Incoming) -> None:
        """Take a delivery."""


class DeliveringConnection(aio_pika.Connection):
    """A connection whose deliveries and acks pass the client by. It connects once.

    Not aio-pika's robust one: after a reconnect it can look open and consume nothing for ever.
    """

    def __init__(self, url: URL, **how: Any) -> None:  # noqa: ANN401 - aio-pika's own
        super().__init__(url, **how)
        self._receivers: dict[int, Receiver] = {}  # by channel
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
        protocol = _Protocol(reader, Deliveries(self._delivered, self._forget))
        transport, _ = await loop.create_connection(
            lambda: protocol, url.host or "", url.port or 0, ssl=context
        )
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer

    async def close(self, exc: Any = ConnectionClosed) -> None:  # noqa: ANN401 - aio-pika's own
        """Close it; a broker that does not answer in time is hung up on."""
        self._receivers.clear()  # nothing may follow on a channel that the client closes
        with suppress(*AIO_PIKA_ERRORS), self.farewell():
            await super().close(exc)

    @contextmanager
    def farewell(self) -> Iterator[None]:
        """Hang up on a broker that does not answer all of it within `FAREWELL`.

        So is one for whose answer nobody waits any longer: else the client would, in a task of its
        own, and the process could not end before.
        """
        hanging_up = self.loop.call_later(FAREWELL, self._hang_up)
        try:
            yield
        except asyncio.CancelledError:
            self._hang_up()
            raise
        finally:
            hanging_up.cancel()

    def begin(self, receiver: Receiver) -> None:
        """Hand it each delivery of its channel, until that is closed."""
        self._receivers[receiver.number] = receiver

    def end(self, receiver: Receiver) -> None:
        """Hand out nothing more, and settle nothing: the channel is closed, or is to be."""
        if self._is_open_for(receiver):
            del self._receivers[receiver.number]

    def ack(self, receiver: Receiver, tag: int, *, multiple: bool) -> None:
        """Ack what a receiver was handed, or with *multiple* all up to it."""
        self._settle(receiver, _ACK, tag, int(multiple))

    def nack(self, receiver: Receiver, tag: int, *, requeue: bool) -> None:
        """Give it back, or hand it to its queue's dead-letter exchange; tag 0: all."""
        self._settle(receiver, _NACK, tag, (not tag) | requeue << 1)

    def _settle(self, receiver: Receiver, method: int, tag: int, bits: int) -> None:
        writer = self._writer
        if self._is_open_for(receiver) and writer is not None and not writer.is_closing():
            size = _SETTLE.size - HEAD.size
            frame = _SETTLE.pack(METHOD, receiver.number, size, BASIC, method, tag, bits)
            writer.transport.write(frame + END)

    def _is_open_for(self, receiver: Receiver) -> bool:
        # The number of a channel that was closed is used again, for another receiver.
        return self._receivers.get(receiver.number) is receiver

    def _delivered(self, channel: int, incoming: Incoming) -> None:
        if (receiver := self._receivers.get(channel)) is not None:
            receiver.receive(incoming)

    def _forget(self, channel: int) -> None:
        self._receivers.pop(channel, None)

    def _hang_up(self) -> None:
        """Abort the transport; the client notices, and closes its channels."""
        if self._writer is not None:
            self._writer.transport.abort()


class Acks:
    """Joins the acks of one turn of the event loop; none waits for another.

    What has no unsettled delivery before it is one ack of many; what is above one, perhaps a task
    that runs for hours, is acked by itself. AMQP has an ack of many name a tag that was not acked
    before.
    """

    def __init__(self, ack: Callable[[int, bool], None]) -> None:
        """*ack* takes a tag, and whether it stands for all before it."""
        self._ack = ack
        self._loop = asyncio.get_running_loop()
        self._unsettled: dict[int, None] = {}  # in the order of their arrival
        self._fresh: list[int] = []

    @property
    def is_idle(self) -> bool:
        """Whether all that arrived is settled."""
        return not self._unsettled

    def arrived(self, tag: int) -> None:
        """Note a delivery: until it is settled, those after it are acked singly."""
        self._unsettled[tag] = None

    def ack(self, tag: int) -> None:
        """Ack it at the end of this turn."""
        if not self._fresh:
            self._loop.call_soon(self.flush)
        self._fresh.append(tag)

    def given_back(self, tag: int) -> None:
        """Note that it was settled without an ack."""
        self._unsettled.pop(tag, None)

    def flush(self) -> None:
        """Write the acks that wait."""
        fresh, self._fresh = self._fresh, []
        for tag in fresh:
            self._unsettled.pop(tag, None)
        oldest = next(iter(self._unsettled), None)
        joined = max((tag for tag in fresh if oldest is None or tag < oldest), default=None)
        if joined is not None:
            self._ack(joined, True)  # noqa: FBT003 - a plain function's
        for tag in fresh:
            if oldest is not None and tag > oldest:
                self._ack(tag, False)  # noqa: FBT003


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
