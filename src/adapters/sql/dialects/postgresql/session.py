"""One session with PostgreSQL: how long it waits for an answer, and how values travel."""

from collections.abc import Generator
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Dumper, Loader

from ...schema.types import read_moment as read_written

T = TypeVar("T")

#: PostgreSQL refuses NUL in texts, which tasks may write: this sign is kept in its place.
NUL: Final = "\N{SYMBOL FOR NULL}"


class Session(psycopg.Connection[Any]):
    """A session that waits *answer_seconds* for an answer and no longer."""

    answer_seconds: float | None = None

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = 0.1, timeout: float | None = None
    ) -> T:
        """Wait as the driver does; a server that does not answer in time is left.

        Raises:
            psycopg.OperationalError: it did not, and the session is closed.
        """
        seconds = self.answer_seconds if timeout is None else timeout
        try:
            return super().wait(gen, interval, seconds)
        except errors._WaitTimeout as error:  # noqa: SLF001 - it has no other name
            self.pgconn.finish()
            text = f"the server did not answer within {seconds:g} s"
            raise psycopg.OperationalError(text) from error

    def adapt_values(self) -> None:
        """Read moments, and write texts, as below."""
        self.adapters.register_loader("timestamptz", Moment)
        self.adapters.register_dumper(str, Text)


@lru_cache(maxsize=1024)
def read_moment(said: bytes) -> datetime | str:
    """Read a moment; `infinity`, and a year that Python has not, is none and stays as it is.

    A busy minute has few different moments.

    >>> read_moment(b"2025-12-12 08:00:00.5+00").isoformat()
    '2025-12-12T08:00:00.500000+00:00'
    >>> read_moment(b"infinity")
    'infinity'
    """
    text = said.decode()
    return read_written(text) or text


class Moment(Loader):
    """Reads a timestamp with a time zone; the session's is UTC."""

    def load(self, data: Any) -> datetime | str:  # noqa: ANN401 - a buffer
        """Read it."""
        return read_moment(bytes(data))


class Text(Dumper):
    """Writes text."""

    def dump(self, obj: str) -> bytes:
        """Write it."""
        return (obj.replace("\0", NUL) if "\0" in obj else obj).encode()
