"""The machine's own clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Linux stops CLOCK_MONOTONIC while the machine is suspended; others have no other, or need none.
_STOPWATCH = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Tells the machine's time. Satisfies `ClockPort`."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. Leases lapse in a suspend, too."""
        return time.clock_gettime(_STOPWATCH)

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: nobody moves this clock by hand, so *callback* would never be called."""
