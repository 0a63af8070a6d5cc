"""How values travel: moments in UTC, and text that PostgreSQL can keep."""

from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg.adapt import Dumper, Loader

from cronhare.adapters.sql.schema.types import read_moment as read_written

#: PostgreSQL refuses NUL in texts, which tasks may write: this sign is kept in its place.
NUL: Final = "\N{SYMBOL FOR NULL}"


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


def adapt(session: "psycopg.Connection[Any]") -> None:
    """Have a session read and write values so."""
    session.adapters.register_loader("timestamptz", Moment)
    session.adapters.register_dumper(str, Text)
