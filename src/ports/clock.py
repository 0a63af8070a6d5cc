"""Time."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class ClockPort(Protocol):
    """Tells the time. Two readings, because a wall clock may be set and a stopwatch may not."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For waits and durations only."""
        ...

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Call *callback* whenever a test moves the time. A real clock never does."""
        ...
