"""Gaps in which owners could not renew their leases, and the grace period after one (ADR 12)."""

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

from ..logs import say

log = logging.getLogger(__name__)

#: So often in a row a grace period may begin anew. What keeps failing must not keep the dead alive.
MOST_IN_A_ROW: Final = 20


class GapDetector:
    """Notices a suspend of the machine, or a clock that was set: no call fails by either.

    Both let leases lapse that could not be renewed. A gap below a third of a lease is ignored:
    owners renew theirs far more often.
    """

    def __init__(self, *, every: timedelta, lease: timedelta) -> None:
        """*every* is the longest time between two checks."""
        self._tolerance = lease / 3
        self._longest = every + lease / 3
        self._last: tuple[datetime, float] | None = None

    def check(self, now: datetime, at: float) -> str | None:
        """Describe the gap since the last check; None if there was none.

        *now* is the ledger's time, *at* that of a stopwatch that counts a suspend, in seconds.
        """
        last, self._last = self._last, (now, at)
        if last is None:
            return None
        passed = timedelta(seconds=at - last[1])
        leap = now - last[0] - passed
        if abs(leap) > self._tolerance:
            return f"the ledger's clock has leapt by {leap.total_seconds():+.0f} s against ours"
        if passed > self._longest:
            return f"nobody looked for {passed.total_seconds():.0f} s"
        return None


class GracePeriod:
    """The length of a lease after a gap, in which nothing that has lapsed is given up.

    Owners renew what they run, or record what has ended. Another gap meanwhile begins it anew, up
    to `MOST_IN_A_ROW` times; then what has lapsed is given up once in any case.
    """

    def __init__(self, lease: timedelta, *, owners: Callable[[], Collection[str]]) -> None:
        """*lease* is that of the workers; *owners* names the nodes that run something."""
        self._lease = lease
        self._owners = owners
        self._why: str | None = None
        self._until: datetime | None = None
        self._in_a_row = 0

    def begin(self, why: str) -> None:
        """Begin with the next call of `lasts`, because of *why*."""
        self._why = self._why or why

    def lasts(self, now: datetime) -> bool:
        """Tell whether nothing is to be given up at *now*."""
        why, self._why = self._why, None
        if why is not None and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            self._until = now + self._lease
            if self._owners():  # of a new ledger there is nothing to log
                seconds = f"{self._lease.total_seconds():.0f} s"
                text = f"Workers have {seconds} to renew what they run: {why}"
                say(log, logging.INFO, "reconcile.spared", text)
        if self._until is not None and timedelta(0) < self._until - now <= self._lease:
            return True
        self._until, self._in_a_row = None, 0
        return False
