"""A connected socket that ends in time, and gives so many bytes and no more."""

import io
import socket
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class TooMuch(OSError):
    """The server sent more than is taken."""


class Clock(Protocol):
    """Seconds that never go backwards."""

    def __call__(self) -> float:
        """Give the seconds since some moment."""
        ...


class Deadline:
    """An end that all steps of one exchange share."""

    def __init__(self, seconds: float, *, clock: Clock = time.monotonic) -> None:
        """Begin now."""
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds until it.

        Raises:
            TimeoutError: it is over.
        """
        if (left := self._end - self._clock()) <= 0:
            raise TimeoutError("it took too long")
        return left


class BoundedSocket:
    """What http.client and smtplib ask of a socket: `sendall`, `makefile`, `close`.

    A timeout of `socket` begins anew with each byte, and a server that sends one now and then is
    never late. Here each wait has what the others have left.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline, *, most: int) -> None:
        """*most* bytes are read in all."""
        self._socket = sock
        self._deadline = deadline
        self._most = most

    def sendall(self, data: bytes) -> None:
        """Send all, in the time that is left."""
        self._socket.settimeout(self._deadline.left)
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Give the incoming bytes."""
        return io.BufferedReader(_BoundedReader(self._socket, self._deadline, self._most))

    def close(self) -> None:
        """Close nothing: who opened it closes it."""


class _BoundedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: Deadline, most: int) -> None:
        self._socket = sock
        self._deadline = deadline
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        if self._left <= 0:
            raise TooMuch("the answer does not end")
        self._socket.settimeout(self._deadline.left)
        count = self._socket.recv_into(buffer, min(memoryview(buffer).nbytes, self._left))
        self._left -= count
        return count
