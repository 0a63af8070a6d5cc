"""The machine's own clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Linux stops CLOCK_MONOTONIC while the machine is suspended; other systems have no CLOCK_BOOTTIME.
_STOPWATCH = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Satisfies `ClockPort` with the machine's time."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        return datetime.now(UTC)

    def peek(self) -> datetime:
        """The same."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since a fixed moment. Never goes back, and counts a suspend, as leases lapse."""
        return time.clock_gettime(_STOPWATCH)

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: this clock is not moved by calls."""
