"""One session with PostgreSQL: it waits so long for an answer and no longer."""

from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import errors

T = TypeVar("T")


class Session(psycopg.Connection[Any]):
    """A session that waits so long for an answer and no longer."""

    answer_seconds: float | None = None

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = 0.1, timeout: float | None = None
    ) -> T:
        """Wait as the driver does; whoever does not answer in time is left.

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
