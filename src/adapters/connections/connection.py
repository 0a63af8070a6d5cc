"""A connection to a server, in TLS or not, that another thread may cut off."""

import socket
import ssl
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from .bounded_socket import BoundedSocket, Deadline


class Connection:
    """One thread opens and uses it, until a deadline; another may `give_up`."""

    def __init__(self, deadline: Deadline) -> None:
        """Begin nothing yet."""
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


def look_up(host: str, port: int) -> list[str]:
    """Ask this machine's resolver, which has time limits of its own."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


def _connect(addresses: Iterable[str], port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first that answers; each has its share of the time."""
    waiting = list(addresses)
    while True:
        address, share = waiting.pop(0), deadline.left / (len(waiting) + 1)
        try:
            return socket.create_connection((address, port), timeout=share)
        except OSError:
            if not waiting:
                raise
