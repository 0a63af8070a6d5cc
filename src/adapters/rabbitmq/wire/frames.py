"""Reading a broker's frames, none of them larger than a bound.

A frame announces its size, up to 4 GiB, and the client would allocate whatever is announced.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Final, cast

from yarl import URL

#: Bytes. No frame is larger, whatever the broker would allow; RabbitMQ's default.
LARGEST_FRAME: Final = 131_072

METHOD, HEADER, BODY = 1, 2, 3
HEAD: Final = struct.Struct(">BHI")
END: Final = b"\xce"

#: The broker's proposal: channels, the largest frame, seconds between heartbeats.
_TUNE: Final = b"\x00\x0a\x00\x1e"
_PROPOSED: Final = struct.Struct(">4sHIH")


class FrameReader:
    """The part of a stream's interface that the client uses, read frame by frame."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._frame = b""
        self._place = 0

    def at_eof(self) -> bool:
        """Whether nothing more will come."""
        return self._place == len(self._frame) and self._reader.at_eof()

    async def readexactly(self, n: int) -> bytes:
        """Read so many bytes of a frame.

        Raises:
            asyncio.IncompleteReadError: the broker hung up.
            ConnectionResetError: it announces a frame that is too large.
        """
        while self._place == len(self._frame):
            self._frame, self._place = await self._next(), 0
        piece = self._frame[self._place : self._place + n]
        self._place += len(piece)
        return piece

    async def read(self, n: int = -1) -> bytes:
        """Read what the client quotes in an error."""
        return await self._reader.read(LARGEST_FRAME if n < 0 else min(n, LARGEST_FRAME))

    def let_through(self, kind: int, channel: int, payload: bytes) -> bytes:  # noqa: ARG002
        """Give the payload that the client is to read; a body frame without one is left out."""
        return payload

    async def _next(self) -> bytes:
        head = await self._reader.readexactly(HEAD.size)
        if head.startswith(b"AMQP"):  # its answer to a protocol version that it does not speak
            return head
        kind, channel, size = HEAD.unpack(head)
        if size + HEAD.size + len(END) > LARGEST_FRAME:
            raise ConnectionResetError(
                f"the broker announces a frame of {size:,} bytes, and {LARGEST_FRAME:,} were agreed"
            )
        rest = await self._reader.readexactly(size + len(END))
        if kind not in (METHOD, HEADER, BODY):
            return head + rest
        payload = rest[: -len(END)]
        if kind == METHOD:
            payload = _tuned(payload)
        through = self.let_through(kind, channel, payload)
        if kind == BODY and not through:
            return b""
        return HEAD.pack(kind, channel, len(through)) + through + END


class TransportFactory:
    """Connects one connection of the client, which then reads through a `FrameReader`."""

    def __init__(self, reader: Callable[[asyncio.StreamReader], FrameReader]) -> None:
        self._reader = reader
        self._writer: asyncio.StreamWriter | None = None

    async def create(
        self,
        url: URL,
        *,
        ssl_context_provider: Any,  # noqa: ANN401 - the client's own
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect.

        Raises:
            OSError: it cannot connect.
        """
        context = await ssl_context_provider.get_context() if url.scheme == "amqps" else None
        reader, self._writer = await asyncio.open_connection(url.host, url.port, ssl=context)
        return cast("asyncio.StreamReader", self._reader(reader)), self._writer

    def hang_up(self) -> None:
        """Abort the transport; the client notices, and closes its channels."""
        if self._writer is not None:
            self._writer.transport.abort()


def _tuned(payload: bytes) -> bytes:
    """Lower the largest frame that a broker proposes: the client agrees to any."""
    if len(payload) != _PROPOSED.size or not payload.startswith(_TUNE):
        return payload
    method, channels, largest, heartbeat = _PROPOSED.unpack(payload)
    agreed = min(largest or LARGEST_FRAME, LARGEST_FRAME)  # 0: without a bound
    return _PROPOSED.pack(method, channels, agreed, heartbeat)
