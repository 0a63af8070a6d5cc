"""A clock that moves by calls alone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Satisfies `ClockPort`. Time passes by `advance` and `move_to` alone: no test waits.

    The callbacks of `on_jump` are called before a move returns.
    """

    def __init__(self, start: datetime) -> None:
        self._now = _in_utc(start)
        self._elapsed = timedelta(0)
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> datetime:
        return self._now

    def peek(self) -> datetime | None:
        return self.now()

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    def on_jump(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def advance(self, duration: timedelta) -> None:
        """Let *duration* pass; to set the clock back there is `move_to`."""
        if duration < timedelta(0):
            raise ValueError(f"time does not go back: {duration}")
        self._elapsed += duration
        self._jump(self._now + duration)

    def move_to(self, instant: datetime) -> None:
        """Move to *instant*.

        Forward, the time between passes. Backward, only the wall clock is set, as by an operator
        or NTP: the stopwatch stays.
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
