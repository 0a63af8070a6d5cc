"""A guard between the socket and the client: of what others wrote it lets nothing through raw.

The client decodes every frame in its reading task, and whatever it raises there ends the
connection. So a delivery's names are taken out (we use none of them), its properties are wrapped
into one header of plain bytes, which cannot fail to be decoded, and a body is cut where no message
that we read goes on. `received` takes the wrapping off again.
"""

import asyncio
import struct
from typing import Any, Final, cast

from aiormq.abc import DeliveredMessage
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

from cronhare.ports.broker import LARGEST_TAKEN, Defect, Message, too_large

from .properties import UnreadableProperties, read_properties

_METHOD, _HEADER, _BODY = 1, 2, 3
_HEAD: Final = struct.Struct(">BHI")
_CONTENT: Final = struct.Struct(">HHQ")
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_END: Final = b"\xce"

#: Flags of a message that has headers and nothing else.
_ONLY_HEADERS: Final = b"\x20\x00"
_RAW, _SIZE = "properties", "size"


class Guarding(TransportFactory):
    """Connects as the client does by itself, and puts the guard before its reader."""

    async def create(
        self,
        url: URL,
        **how: Any,  # noqa: ANN401 - the client's own
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect."""
        factory = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await factory.create(url, **how)
        return cast("asyncio.StreamReader", GuardedReader(reader)), writer


class GuardedReader:
    """Reads as a stream does, frame by frame: the part of it that the client uses."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._frame = b""
        self._place = 0
        self._left: dict[int, int] = {}  # bytes of a body still to be let through, by channel

    def at_eof(self) -> bool:
        """Whether nothing more will come."""
        return self._place == len(self._frame) and self._reader.at_eof()

    async def readexactly(self, n: int) -> bytes:
        """Read so many bytes of a guarded frame.

        Raises:
            asyncio.IncompleteReadError: the broker hung up.
        """
        while self._place == len(self._frame):
            self._frame, self._place = await self._next(), 0
        piece = self._frame[self._place : self._place + n]
        self._place += len(piece)
        return piece

    async def read(self, n: int = -1) -> bytes:
        """Read what the client shows in an error."""
        return await self._reader.read(n)

    async def _next(self) -> bytes:
        head = await self._reader.readexactly(_HEAD.size)
        kind, channel, size = _HEAD.unpack(head)
        if kind not in (_METHOD, _HEADER, _BODY):
            return head if head.startswith(b"AMQP") else head + await self._rest(size)
        payload = (await self._rest(size))[:-1]
        if kind == _HEADER:
            payload = self._wrapped(channel, payload)
        elif kind == _BODY:
            payload = self._cut(channel, payload)
            if not payload:
                return b""
        elif payload.startswith(_DELIVER):
            payload = _without_names(payload)
        return _HEAD.pack(kind, channel, len(payload)) + payload + _END

    async def _rest(self, size: int) -> bytes:
        return await self._reader.readexactly(size + 1)

    def _wrapped(self, channel: int, payload: bytes) -> bytes:
        class_id, weight, size = _CONTENT.unpack_from(payload)
        self._left[channel] = kept = min(size, LARGEST_TAKEN)
        raw = payload[_CONTENT.size :]
        table = (
            struct.pack(">B10scI", len(_RAW), _RAW.encode(), b"x", len(raw))
            + raw
            + struct.pack(">B4scq", len(_SIZE), _SIZE.encode(), b"l", size)
        )
        wrapped = _ONLY_HEADERS + struct.pack(">I", len(table)) + table
        return _CONTENT.pack(class_id, weight, kept) + wrapped

    def _cut(self, channel: int, payload: bytes) -> bytes:
        left = self._left.get(channel, 0)
        self._left[channel] = left - min(left, len(payload))
        return payload[:left]


def _without_names(deliver: bytes) -> bytes:
    """Take exchange and routing key out of a delivery: a publisher may make them of any bytes.

    What is left: the consumer's tag, the delivery's number, and whether it comes again.
    """
    upto = len(_DELIVER) + 1 + deliver[len(_DELIVER)] + 8 + 1
    return deliver[:upto] + b"\x00\x00"


def received(message: DeliveredMessage) -> tuple[Message, Defect | None]:
    """Understand what came through the guard; a message with a defect has what could be read."""
    wrapped = cast("dict[str, Any]", message.header.properties.headers)
    raw, size = bytes(wrapped[_RAW]), int(wrapped[_SIZE])
    try:
        properties = read_properties(raw)
    except UnreadableProperties as error:
        return Message(body=message.body), Defect(reason=str(error), size=size, properties=raw)
    understood = Message(body=message.body, headers=properties.headers, id=properties.id)
    return understood, too_large(size)
