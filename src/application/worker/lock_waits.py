"""How long those who would begin look for what somebody else holds, before others get their place.

Nearly always a row is held for some milliseconds, by a mark or a copy of the same start. Where
one is held for longer there are often more of them, all held by one transaction that was left open.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

from cronhare.ports.ledger import LedgerBusy

#: Seconds between the looks of one that was not put off before.
PAUSES: Final = (0.01, 0.02, 0.04, 0.08)

#: So many seconds after one was looked for in vain the others keep no more than their share.
LIMITED_FOR: Final = 60.0

#: One place in so many is their share.
SHARE: Final = 4


class LockWaits:
    """Bounds the places that all of them together keep."""

    def __init__(self, monotonic: Callable[[], float], *, places: int) -> None:
        """*monotonic* counts seconds; *places* are those of the worker.

        *in_vain* says how the last question of what was put off has ended: so would the others',
        most likely.
        """
        self._monotonic = monotonic
        self._share = places // SHARE
        self._looking = 0
        self._hurried_until = float("-inf")
        self.last_failed = False

    @property
    def has_room(self) -> bool:
        """Whether one more that was put off before may ask now: one may in any case."""
        return self._looking < max(self._share, 1)

    @contextmanager
    def place(self, *, returned: bool) -> Iterator[Iterator[float]]:
        """Give the pauses before one looks again: none for what was put off, and has *returned*."""
        looks = self._looks(returned=returned)
        self._looking += returned
        try:
            yield looks
            self.last_failed = self.last_failed and not returned
        except LedgerBusy:
            self.last_failed = True
            self._hurried_until = self._monotonic() + LIMITED_FOR
            raise
        finally:
            looks.close()
            self._looking -= returned

    def _looks(self, *, returned: bool) -> Generator[float]:
        is_hurried = self._monotonic() < self._hurried_until
        if returned or (is_hurried and self._looking >= self._share):
            return
        self._looking += 1
        try:
            yield from PAUSES
        finally:
            self._looking -= 1
