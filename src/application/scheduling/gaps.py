"""Whether the ledger's time and ours went on steadily from one look to the next."""

from datetime import datetime, timedelta


class Gaps:
    """Notices what no call tells by an error: that all of us slept, or that a clock was set.

    Either lets leases lapse that nobody had the time to renew. What costs less than a third of a
    lease is not looked at: owners renew theirs far more often.
    """

    def __init__(self, *, every: timedelta, lease: timedelta) -> None:
        """*every* is how often somebody looks, at the least."""
        self._apart = lease / 3
        self._longest = every + lease / 3
        self._last: tuple[datetime, float] | None = None

    def before(self, now: datetime, at: float) -> str | None:
        """Say what lay between the last look and this one; None if they followed each other.

        *now* is the ledger's time, *at* that of a stopwatch that counts a suspend.
        """
        last, self._last = self._last, (now, at)
        if last is None:
            return None
        passed = timedelta(seconds=at - last[1])
        leap = now - last[0] - passed
        if abs(leap) > self._apart:
            return f"the ledger's clock has leapt by {leap.total_seconds():+.0f} s against ours"
        if passed > self._longest:
            return f"nobody looked for {passed.total_seconds():.0f} s"
        return None
