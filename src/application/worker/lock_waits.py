"""How long a start waits for a locked row, before others get its place.

Nearly always a row is locked for some milliseconds, by a mark or a copy of the same start. Where
one is locked for longer there are often more, all locked by one transaction that was left open.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from cronhare.ports.ledger import LedgerBusy


@attrs.define(eq=False)
class Places:
    """So many are *shared* by the queues of a worker; each queue *apart* has one of its own.

    What a worker serves apart changes while it runs; any thread may ask.
    """

    shared: int
    apart: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """All of them."""
        return self.shared + len(self.apart)


#: Seconds between the looks for one that was not put off before.
PAUSES: Final = (0.01, 0.02, 0.04, 0.08)

#: For so many seconds after one was given up, those that wait keep no more than their share.
LIMITED_FOR: Final = 60.0

#: Their share: one place in so many.
SHARE: Final = 4

#: So many rows that may be locked are asked for in one statement: one keeps the others waiting.
LOCKED_AT_ONCE: Final = 4


def lock_wait(what: str, locked: str = "its row") -> str:
    """Say why something waits, and what to do."""
    return (
        f"{what} waits, because somebody else keeps {locked} locked: look in SHOW PROCESSLIST for "
        "a transaction that was left open"
    )


class LockWaits:
    """Bounds the places that all who wait for locked rows keep together."""

    def __init__(self, monotonic: Callable[[], float], *, places: Places) -> None:
        """*monotonic* counts seconds; *places* are those of the worker.

        *last_failed* tells how the last wait of one that had been put off ended: so would those of
        the others, most likely.
        """
        self._monotonic = monotonic
        self._places = places
        self._waiting = 0
        self._limited_until = float("-inf")
        self.last_failed = False

    @property
    def _share(self) -> int:
        return self._places.count // SHARE

    @property
    def has_room(self) -> bool:
        """Whether one more that was put off before may ask now; one may in any case."""
        return self._waiting < max(self._share, 1)

    @contextmanager
    def place(self, *, returned: bool) -> Iterator[Iterator[float]]:
        """Give the seconds between looks: none for what has *returned* after it was put off."""
        pauses = self._pauses(returned=returned)
        self._waiting += returned
        try:
            yield pauses
            self.last_failed = self.last_failed and not returned
        except LedgerBusy:
            self.last_failed = True
            self._limited_until = self._monotonic() + LIMITED_FOR
            raise
        finally:
            pauses.close()
            self._waiting -= returned

    def _pauses(self, *, returned: bool) -> Generator[float]:
        is_limited = self._monotonic() < self._limited_until
        if returned or (is_limited and self._waiting >= self._share):
            return
        self._waiting += 1
        try:
            yield from PAUSES
        finally:
            self._waiting -= 1
