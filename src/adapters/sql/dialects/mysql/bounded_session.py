"""A session with bounds for what a server says: tight ones until it is set up."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, Final

import pymysql
from pymysql.constants import CR

from .login import GuardedLogin

#: All that a server may say until its session is set up; later, an answer to a question about no
#: table, in bytes. Of small rows Python makes fifty times as much.
SHORT: Final = 2**20

#: An answer to a question about a table, in bytes: people may write very wide rows.
LONG: Final = 2**30

#: What each read counts beside its bytes. There are two for each row.
_EACH: Final = 50


class BoundedSession(GuardedLogin):
    """A session that waits so long for a server, however the server spreads its answers.

    The driver's own bounds are for each piece that comes: a byte a second satisfies them for ever,
    and rows without end fill the memory. The time between two questions does not count.
    """

    # The driver's own, which has no other way to it.
    _sock: socket.socket
    _rfile: BufferedReader
    _current_timeout: float | None
    _read_timeout: float | None
    _force_close: Callable[[], None]

    def __init__(self, *, place: str, opening_seconds: float, **options: Any) -> None:  # noqa: ANN401
        """Connect, with the driver's *options*. *place* names the server in errors."""
        self._place = place
        self._room = self._bound = SHORT
        self._left = opening_seconds
        self._until: float | None = None
        self._is_opened = False
        with self._taking_time():
            super().__init__(**options)

    def ask(self, question: str, *values: object) -> dict[str, str]:
        """Ask while the session is set up. Rows of an answer have a name and a value.

        Raises:
            pymysql.MySQLError: it is refused, or takes too long, or cannot be understood.
        """
        try:
            with self._taking_time(), self.cursor() as cursor:
                cursor.execute(question, values or None)
                return {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        except Exception as error:
            if is_understood(error):
                raise
            raise not_understood(self._place, error) from error

    def opened(self, *, answer_seconds: int | None) -> None:
        """Wait from now on *answer_seconds* for each piece of an answer."""
        self._is_opened = True
        self._read_timeout = answer_seconds

    @contextmanager
    def _taking_time(self) -> Iterator[None]:
        """Count all time, and that of reading what came as well: to send much takes time, too."""
        self._until = time.monotonic() + self._left
        try:
            yield
        finally:
            self._left = self._until - time.monotonic()

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        if self._is_opened:
            words = sql.encode() if isinstance(sql, str) else sql
            self._room = self._bound = LONG if b"FROM" in words else SHORT
        super()._execute_command(command, sql)  # type: ignore[misc]

    def _read_bytes(self, size: int) -> bytes:
        self._room -= size + _EACH
        if self._room < 0:
            raise self._lost(f"it says more than the {self._bound:,} bytes that it may")
        if self._is_opened:
            found: bytes = super()._read_bytes(size)  # type: ignore[misc]
            return found
        pieces = bytearray()
        while len(pieces) < size:
            try:
                piece = self._read_piece(size - len(pieces))
            except OSError as error:
                raise self._lost(str(error)) from error
            if not piece:
                raise self._lost("it closed the connection")
            pieces += piece
        return bytes(pieces)

    def _read_piece(self, size: int) -> bytes:
        left = 0.0 if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        self._current_timeout = left
        return self._rfile.read1(size)

    def _lost(self, why: str) -> pymysql.OperationalError:
        self._force_close()
        text = f"Lost connection to MySQL server during query ({why})"
        return pymysql.OperationalError(CR.CR_SERVER_LOST, text)


def is_understood(error: Exception) -> bool:
    """Whether an error is a server's, or the driver's about a server.

    The driver's error about packets in another order than a server's has no number.
    """
    numbered = bool(error.args) and isinstance(error.args[0], int)
    is_of_packets = isinstance(error, pymysql.InternalError) and not numbered
    return isinstance(error, pymysql.MySQLError) and not is_of_packets


def not_understood(place: str, error: Exception) -> pymysql.OperationalError:
    """Make the error for an answer that is no database's, but an HTTP server's, say."""
    text = f"what answers at {place} is not understood: {type(error).__name__}: {error}"
    return pymysql.OperationalError(CR.CR_SERVER_HANDSHAKE_ERR, text)
