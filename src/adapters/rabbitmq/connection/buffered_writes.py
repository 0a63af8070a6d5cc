"""Writing many frames to the socket at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from pika import SelectConnection

#: Enough for hundreds of messages, and little to copy when the socket takes only a part of it.
LARGEST_WRITE = 64 * 1024


class BufferedConnection(SelectConnection):
    """A connection that can write what is published together in one piece.

    pika alone makes a system call for each frame of a message, of which there are three at least,
    and each time another thread may take the interpreter's lock for its five milliseconds.
    """

    _buffer: list[bytes] | None = None
    _size = 0

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Buffer what is written in here, until it is `LARGEST_WRITE` bytes, or until the end."""
        self._buffer, self._size = [], 0
        try:
            yield
        finally:
            self._flush()
            self._buffer = None

    def _adapter_emit_data(self, data: bytes) -> None:
        """Take a frame, in place of pika, which writes it at once."""
        if self._buffer is None:
            super()._adapter_emit_data(data)
            return
        self._buffer.append(data)
        self._size += len(data)
        if self._size >= LARGEST_WRITE:
            self._flush()

    def _flush(self) -> None:
        buffer, self._buffer, self._size = self._buffer, [], 0
        if buffer:
            super()._adapter_emit_data(b"".join(buffer))
