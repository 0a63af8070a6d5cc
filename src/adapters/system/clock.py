"""The machine's own clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime


class SystemClock:
    """Tells the machine's time. Satisfies `ClockPort`."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: nobody moves this clock by hand, so *callback* would never be called."""
