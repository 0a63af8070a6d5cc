"""A clock that stands still until it is told to move."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Tells the time it was given. Satisfies `ClockPort`.

    Time passes by `advance` and `move_to` alone, so that a two-minute retry costs a test nothing.
    Whoever asked by `on_jump` hears of each move before that call returns.
    """

    def __init__(self, start: datetime) -> None:
        """Stand still at *start*.

        Raises:
            ValueError: *start* is naive, or not in UTC.
        """
        self._now = _in_utc(start)
        self._elapsed = timedelta(0)
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> datetime:
        """The instant at which the clock stands, aware, in UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that have passed since the clock was made."""
        return self._elapsed.total_seconds()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Call *callback* after every move, in the order of registration."""
        self._callbacks.append(callback)

    def advance(self, duration: timedelta) -> None:
        """Let *duration* pass.

        Raises:
            ValueError: *duration* is negative. A clock that is set back is `move_to`.
        """
        if duration < timedelta(0):
            raise ValueError(f"time does not go back: {duration}")
        self._elapsed += duration
        self._jump(self._now + duration)

    def move_to(self, instant: datetime) -> None:
        """Stand at *instant*.

        Forward, the time between passes. Backward, only the wall clock is set, as an operator
        or NTP would: the stopwatch stays where it is.

        Raises:
            ValueError: *instant* is naive, or not in UTC.
        """
        instant = _in_utc(instant)
        self._elapsed += max(instant - self._now, timedelta(0))
        self._jump(instant)

    def _jump(self, instant: datetime) -> None:
        self._now = instant
        for callback in tuple(self._callbacks):
            callback()


def _in_utc(instant: datetime) -> datetime:
    if instant.utcoffset() != timedelta(0):
        raise ValueError(f"not an aware instant in UTC: {instant.isoformat()}")
    return instant.astimezone(UTC)
