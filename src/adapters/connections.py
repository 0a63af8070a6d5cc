"""Connections to servers whose talk is bounded: in time, and in bytes."""

import asyncio
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


T = TypeVar("T")


class Deadline:
    """An end that all steps of one exchange share."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until it.

        Raises:
            TimeoutError: it is over.
        """
        if (left := self._end - time.monotonic()) <= 0:
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
        self._socket.settimeout(self._deadline.left)
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
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
            raise OSError("the answer does not end")
        self._socket.settimeout(self._deadline.left)
        count = self._socket.recv_into(buffer, min(memoryview(buffer).nbytes, self._left))
        self._left -= count
        return count


class Connection:
    """One thread opens and uses it, until a deadline; another may `give_up`."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._socket: socket.socket | None = None
        self._given_up = False

    @contextmanager
    def opened(self, addresses: Iterable[str], port: int) -> Generator[None]:
        """Connect to the first that answers; it is closed in the end.

        Raises:
            OSError: none did.
        """
        self._socket = _connect(addresses, port, self._deadline)
        try:
            yield
        finally:
            self._socket.close()

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from here on, and hold the certificate against the name, whatever the address.

        Raises:
            OSError: that failed.
        """
        assert self._socket is not None, "it is open"
        self._socket.settimeout(self._deadline.left)
        self._socket = context.wrap_socket(
            self._socket, server_hostname=host, do_handshake_on_connect=False
        )
        self._socket.do_handshake()

    def bounded(self, *, most: int) -> BoundedSocket:
        """Give what may be used of it: *most* bytes are read.

        Raises:
            TimeoutError: it was given up.
        """
        assert self._socket is not None, "it is open"
        if self._given_up:
            raise TimeoutError("it was given up")
        return BoundedSocket(self._socket, self._deadline, most=most)

    def give_up(self) -> None:
        """Wake its thread, wherever it waits; safe to repeat, and after the end."""
        self._given_up = True
        if (sock := self._socket) is not None:
            with suppress(OSError):  # not `sock.shutdown`: that of TLS would forget its state
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class Conversations:
    """Each has a daemon thread of its own, so that a resolver that hangs delays no exit."""

    def __init__(self, most: int, *, what: str) -> None:
        """*what* names one in an error."""
        self._most = most
        self._what = what
        self._room = threading.BoundedSemaphore(most)

    async def hold(self, work: Callable[[Connection], T], *, seconds: float) -> T:
        """Do a work in its thread; who cancels it hangs up.

        Raises:
            TimeoutError: it took longer.
            OSError: there are too many, or this machine begins no thread; and what *work* raises.
        """
        if not self._room.acquire(blocking=False):
            raise OSError(f"there is no place for another {self._what}: {self._most} are under way")
        connection, done = Connection(Deadline(seconds)), Future[T]()
        done.set_running_or_notify_cancel()  # who stops waiting for it does not cancel it

        def run() -> None:
            try:
                answer = work(connection)
            except BaseException as error:  # noqa: BLE001 - for whoever awaits it
                done.set_exception(error)
            else:
                done.set_result(answer)
            finally:
                self._room.release()

        try:
            threading.Thread(target=run, name=self._what, daemon=True).start()
        except RuntimeError as error:
            self._room.release()
            raise OSError(f"this machine begins no thread for it: {error}") from error
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(done)
        finally:
            connection.give_up()


def look_up(host: str, port: int) -> list[str]:
    """Ask this machine's resolver, which has time limits of its own."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


def _connect(addresses: Iterable[str], port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first that answers; each has its share of the time."""
    *others, last = addresses
    for place, address in enumerate(others):
        with suppress(OSError):
            share = deadline.left / (len(others) + 1 - place)
            return socket.create_connection((address, port), timeout=share)
    return socket.create_connection((last, port), timeout=deadline.left)
