"""A guard between the socket and the client, so that no publisher's bytes make the client raise.

The client decodes every frame in its reading task, and whatever it raises there ends the
connection. So a delivery's names are taken out (we use none of them), its properties are wrapped
into one header of plain bytes, which always decodes, and a body is cut at the size of the largest
message that we read. `received` unwraps the properties.
"""

import asyncio
import struct
from typing import Any, Final, cast

from aiormq.abc import DeliveredMessage

from cronhare.ports.broker import LARGEST_TAKEN, Defect, Message, too_large

from ..connection.async_connection import FramedConnection
from ..wire.frames import BODY, HEADER, FrameReader
from ..wire.properties import UnreadableProperties, read_properties

_CONTENT: Final = struct.Struct(">HHQ")
_DELIVER: Final = b"\x00\x3c\x00\x3c"

#: Flags of a message that has headers and nothing else.
_ONLY_HEADERS: Final = b"\x20\x00"
_RAW, _SIZE = "properties", "size"


class GuardedReader(FrameReader):
    """Changes frames so that the client can decode all of them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._left: dict[int, int] = {}  # bytes of a body still to be let through, by channel

    def let_through(self, kind: int, channel: int, payload: bytes) -> bytes:
        if kind == HEADER:
            return self._wrapped(channel, payload)
        if kind == BODY:
            return self._cut(channel, payload)
        return _without_names(payload) if payload.startswith(_DELIVER) else payload

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


class GuardedConnection(FramedConnection):
    """A connection whose frames pass the guard."""

    reader = GuardedReader


def _without_names(deliver: bytes) -> bytes:
    """Take exchange and routing key out of a delivery: they may be any bytes.

    What is left: consumer tag, delivery tag and the redelivered flag.
    """
    upto = len(_DELIVER) + 1 + deliver[len(_DELIVER)] + 8 + 1
    return deliver[:upto] + b"\x00\x00"


def received(message: DeliveredMessage) -> tuple[Message, Defect | None]:
    """Decode what came through the guard; a message with a defect has what could be read."""
    wrapped = cast("dict[str, Any]", message.header.properties.headers)
    raw, size = bytes(wrapped[_RAW]), int(wrapped[_SIZE])
    try:
        properties = read_properties(raw)
    except UnreadableProperties as error:
        return Message(body=message.body), Defect(reason=str(error), size=size, properties=raw)
    understood = Message(body=message.body, headers=properties.headers, id=properties.id)
    return understood, too_large(size)
