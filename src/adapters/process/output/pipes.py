"""Reading what a task writes, without a thread and without waiting for an end of file."""

import asyncio
import os
from collections.abc import Callable

#: At most so much is read in a turn of the loop: as much as a pipe holds by default.
CHUNK = 64 * 1024
#: A pipe that has more to say within so many seconds rests for as long, or for `_SHARE` times what
#: it took to take its last words in, if that is longer. So one that is never empty takes a small
#: part of the loop, however much work its words are, and its writer is slowed down by a full pipe.
_REST = 0.002
_SHARE = 20
#: The largest pipe that Linux lets a user make; more than that cannot be left in it.
_LARGEST_PIPE = 1024 * 1024


class Pipe:
    """A pipe from a task to *sink*. The end at *writer* is to be given away."""

    def __init__(self, sink: Callable[[bytes], None], *, chunk: int = CHUNK) -> None:
        """*sink* is given at most *chunk* bytes at a time."""
        self._sink = sink
        self._chunk = chunk
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._read_at = 0.0

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to hand on what comes, as it comes. Safe to repeat, and after `close`."""
        if self._loop is None and self._rest is None and self._reader >= 0:
            self._loop = loop
            loop.add_reader(self._reader, self._on_readable, loop)

    def drain(self) -> None:
        """Hand on what the pipe still holds. A writer that we do not know is not waited for."""
        left = _LARGEST_PIPE
        while left > 0 and (got := self._read()):
            left -= got

    def close(self) -> None:
        """Let go of the reading end. Safe to repeat."""
        self._stop_listening()
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def _on_readable(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if self._read() and now - self._read_at < _REST:
            self._stop_listening()
            rest = max(_REST, (loop.time() - now) * _SHARE)
            self._rest = loop.call_later(rest, self._listen_again, loop)
        self._read_at = loop.time()

    def _listen_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._rest, self._read_at = None, loop.time()
        self.listen(loop)

    def _read(self) -> int:
        try:
            chunk = os.read(self._reader, self._chunk)
        except BlockingIOError:
            return 0
        if chunk:
            self._sink(chunk)
        else:
            self._stop_listening()
        return len(chunk)

    def _stop_listening(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._reader)
            self._loop = None
