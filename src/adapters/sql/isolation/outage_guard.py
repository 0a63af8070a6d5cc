"""Telling a row of which the database says what looks like an outage from an outage.

No privilege, a table that is full, a server that only reads: a trigger may say so of one row, for
tables of its own. If anything is written, it was no outage; if nothing is, it is one, and it is not
looked for long: each part that is asked costs a server a transaction that may be in trouble.
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

#: So many parts are asked in vain, beside those on the way down to the first single one.
MOST_FAILED_PARTS: Final = 24

#: Nor for longer, in seconds: each part may have to wait before it fails.
LONGEST_SEARCH: Final = 5.0


class PresumedOutage(LedgerUnavailable):
    """So much was asked for, and nothing written, that it is an outage."""


class OutageGuard(Generic[Q, A]):
    """Asks for parts of one batch, and gives up on all once enough of them were asked in vain.

    *written* are the ids of which anything was written so far.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Q]], BatchResult[A]],
        size: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*size* is that of the whole batch; *monotonic* counts seconds."""
        self.written = set[int]()
        self._ask = ask
        self._left = size.bit_length() + MOST_FAILED_PARTS
        self._monotonic = monotonic
        self._until = monotonic() + LONGEST_SEARCH

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Have an error not say that nothing was changed, where a part was written before it."""
        try:
            yield
        except LedgerUnavailable as error:
            error.changed_nothing = error.changed_nothing and not self.written
            raise

    def __call__(self, asked: Sequence[Q]) -> BatchResult[A]:
        """Ask.

        Raises:
            InDoubt: it is refused, and smaller parts of it may be written.
            InVain: it is, as so many others are.
        """
        try:
            answers = self._ask(asked)
        except InDoubt as doubt:
            self._left -= 1
            is_over = self._left <= 0 or self._monotonic() >= self._until
            if is_over and not self.written:
                raise PresumedOutage(str(doubt), changed_nothing=doubt.changed_nothing) from doubt
            raise
        self.written.update(answers.written)
        return answers
