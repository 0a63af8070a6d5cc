"""Reading a task's pipes, without a thread and without waiting for an end of file."""

import asyncio
import os
from collections.abc import Callable

#: Bytes read at most in a turn of the loop: as much as a pipe holds by default.
CHUNK = 64 * 1024
#: A pipe that is readable again within `_REST` seconds is not read for as long, or for `_SHARE`
#: times what the last read took, if that is longer. So endless output takes a small part of the
#: loop, however costly it is to handle, and its writer waits before a full pipe.
_REST = 0.002
_SHARE = 20
#: Bytes of the largest pipe that Linux lets a user make: no more can be left in one.
_LARGEST_PIPE = 1024 * 1024


class Pipe:
    """A pipe from a task to *sink*. The end at *writer* is for the task: we do not close it."""

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
        """Pass on output as it comes. Safe to repeat, and after `close`."""
        if self._loop is None and self._rest is None and self._reader >= 0:
            self._loop = loop
            loop.add_reader(self._reader, self._on_readable, loop)

    def drain(self) -> None:
        """Pass on what the pipe still holds, and do not wait for other processes that write."""
        left = _LARGEST_PIPE
        while left > 0 and (got := self._read()):
            left -= got

    def close(self) -> None:
        """Close the reading end. Safe to repeat."""
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
