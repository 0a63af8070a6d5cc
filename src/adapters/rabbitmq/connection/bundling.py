"""Sending many frames at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from pika import SelectConnection

#: Enough for hundreds of messages, and little to copy when the socket takes only a part of it.
LARGEST_BUNDLE = 64 * 1024


class BundlingConnection(SelectConnection):
    """A connection that can send what is published together in one piece.

    By itself pika hands each frame of a message, three at least, to the operating system alone,
    and every time the interpreter's lock goes to a thread that keeps it for its five milliseconds.
    """

    _bundle: list[bytes] | None = None
    _size = 0

    @contextmanager
    def bundled(self) -> Iterator[None]:
        """Keep back what is sent in here, until it is much, or until the end."""
        self._bundle, self._size = [], 0
        try:
            yield
        finally:
            self._send_bundle()
            self._bundle = None

    def _adapter_emit_data(self, data: bytes) -> None:
        """Take a frame; an adapter's part in pika, whose own asks the socket to take it."""
        if self._bundle is None:
            super()._adapter_emit_data(data)
            return
        self._bundle.append(data)
        self._size += len(data)
        if self._size >= LARGEST_BUNDLE:
            self._send_bundle()

    def _send_bundle(self) -> None:
        bundle, self._bundle, self._size = self._bundle, [], 0
        if bundle:
            super()._adapter_emit_data(b"".join(bundle))
