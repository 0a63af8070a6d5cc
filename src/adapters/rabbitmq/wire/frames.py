"""Reading a broker's frames, none of them larger than a bound.

A frame announces its size, up to 4 GiB, and the client would allocate whatever is announced.
"""

import asyncio
import struct
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

    async def _next(self) -> bytes:
        head = await self._reader.readexactly(HEAD.size)
        if head.startswith(b"AMQP"):  # its answer to a protocol version that it does not speak
            return head
        kind, _, size = HEAD.unpack(head)
        if size + HEAD.size + len(END) > LARGEST_FRAME:
            raise ConnectionResetError(
                f"the broker announces a frame of {size:,} bytes, and {LARGEST_FRAME:,} were agreed"
            )
        rest = await self._reader.readexactly(size + len(END))
        return head + (_tuned(rest) if kind == METHOD else rest)


class TransportFactory:
    """Connects one connection of the client, which then reads through a `FrameReader`."""

    def __init__(self) -> None:
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
        return cast("asyncio.StreamReader", FrameReader(reader)), self._writer

    def hang_up(self) -> None:
        """Abort the transport; the client notices, and closes its channels."""
        if self._writer is not None:
            self._writer.transport.abort()


def _tuned(rest: bytes) -> bytes:
    """Lower the largest frame that a broker proposes: the client agrees to any."""
    if len(rest) != _PROPOSED.size + len(END) or not rest.startswith(_TUNE):
        return rest
    method, channels, largest, heartbeat = _PROPOSED.unpack_from(rest)
    agreed = min(largest or LARGEST_FRAME, LARGEST_FRAME)  # 0: without a bound
    return _PROPOSED.pack(method, channels, agreed, heartbeat) + END
