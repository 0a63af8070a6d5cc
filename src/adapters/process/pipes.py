"""Reading what a task writes, without a thread and without waiting for an end of file."""

import asyncio
import os
from collections.abc import Callable

#: A turn of the loop per chunk, and up to a log line per two bytes of it: small, so that a task
#: that babbles is slowed down by its full pipe and not the loop by the task.
_CHUNK = 8 * 1024
#: The largest pipe that Linux lets a user make; more than that cannot be left in it.
_LARGEST_PIPE = 1024 * 1024


class Pipe:
    """A pipe from a task to *sink*. The end at *writer* is to be given away."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to hand on what comes, as it comes. Safe to repeat, and after `close`."""
        if self._loop is None and self._reader >= 0:
            self._loop = loop
            loop.add_reader(self._reader, self._read)

    def drain(self) -> None:
        """Hand on what the pipe still holds. A writer that we do not know is not waited for."""
        left = _LARGEST_PIPE
        while left > 0 and (got := self._read()):
            left -= got

    def close(self) -> None:
        """Let go of the reading end. Safe to repeat."""
        self._stop_listening()
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def _read(self) -> int:
        try:
            chunk = os.read(self._reader, _CHUNK)
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
