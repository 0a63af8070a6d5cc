"""Telling an outage from a row whose change fails with an error that looks like one.

A missing privilege, a full table, a read-only server: a trigger may raise these for one row, of
tables of its own. If any row of the batch is written, it was no outage. If none is, it is one, and
the search ends soon: each part costs a transaction on a server that may be in trouble.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from cronhare.ports.ledger import LedgerUnavailable

from ..dialect import InDoubt
from .bisection import BatchResult

Q = TypeVar("Q")
A = TypeVar("A")

#: So many parts may fail, beside those on the way down to the first single item.
MOST_FAILED_PARTS: Final = 24

#: Nor may the search last longer, in seconds: each part may have to wait before it fails.
LONGEST_SEARCH: Final = 5.0


class PresumedOutage(LedgerUnavailable):
    """So many parts failed, and none was written, that it is an outage."""


class OutageGuard(Generic[Q, A]):
    """Asks for parts of one batch, and ends the search once enough of them have failed.

    *written* are the ids of the rows that were written so far.
    """

    def __init__(self, ask: Callable[[Sequence[Q]], BatchResult[A]], size: int) -> None:
        """*size* is that of the whole batch."""
        self.written = set[int]()
        self._ask = ask
        self._left = size.bit_length() + MOST_FAILED_PARTS
        self._until = time.monotonic() + LONGEST_SEARCH

    @contextmanager
    def correcting_errors(self) -> Iterator[None]:
        """Clear an error's `changed_nothing` if a part was written before it."""
        try:
            yield
        except LedgerUnavailable as error:
            error.changed_nothing = error.changed_nothing and not self.written
            raise

    def __call__(self, asked: Sequence[Q]) -> BatchResult[A]:
        """Ask for a part.

        Raises:
            InDoubt: it failed; smaller parts of it may be written.
            PresumedOutage: it failed, as so many before it did.
        """
        try:
            result = self._ask(asked)
        except InDoubt as doubt:
            self._left -= 1
            is_over = self._left <= 0 or time.monotonic() >= self._until
            if is_over and not self.written:
                raise PresumedOutage(str(doubt), changed_nothing=doubt.changed_nothing) from doubt
            raise
        self.written.update(result.written)
        return result
