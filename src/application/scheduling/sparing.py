"""When nothing is given up: those who run it may have had no time to renew its lease."""

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

from ..logs import say

log = logging.getLogger(__name__)

#: So often in a row a sparing may begin anew. What keeps failing must not keep the dead alive.
MOST_IN_A_ROW: Final = 20


class Sparing:
    """A lease's time, from the first look after an outage or a leap of clocks on.

    In it owners renew what they run, and record what has ended. What happens again meanwhile
    begins it anew, so often; then what has lapsed is given up once, whatever happens.
    """

    def __init__(self, lease: timedelta, *, owners: Callable[[], Collection[str]]) -> None:
        """*lease* is that of the workers, and *owners* names those who run something."""
        self._lease = lease
        self._owners = owners
        self._why: str | None = None
        self._until: datetime | None = None
        self._in_a_row = 0

    def begin(self, why: str) -> None:
        """Begin with the next look: those who run something could not be heard."""
        self._why = self._why or why

    def lasts(self, now: datetime) -> bool:
        """Tell whether the look at *now* is to give nothing up. One that may ends the row."""
        why, self._why = self._why, None
        if why is not None and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            self._until = now + self._lease
            if self._owners():  # of a new ledger there is nothing to tell
                seconds = f"{self._lease.total_seconds():.0f} s"
                text = f"Workers have {seconds} to renew what they run: {why}"
                say(log, logging.INFO, "reconcile.spared", text)
        if self._until is not None and timedelta(0) < self._until - now <= self._lease:
            return True
        self._until, self._in_a_row = None, 0
        return False
