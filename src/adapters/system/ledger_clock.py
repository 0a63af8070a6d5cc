"""The ledger's time, kept on this node: one clock decides, and nobody waits for it."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

import attrs

from cronhare.ports.clock import ClockPort


@attrs.frozen
class _Reading:
    told: datetime
    at: float


class LedgerClock:
    """Satisfies `ClockPort`: what the ledger told last, and the monotonic time since.

    A node whose own clock is wrong by an hour thereby does everything at the right time; how
    wrong it is, `skew` tells.
    """

    def __init__(self, ask: Callable[[], datetime], clock: ClockPort) -> None:
        """*ask* tells the ledger's time, and may raise `LedgerUnavailable`."""
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: _Reading | None = None

    def measure(self) -> timedelta:
        """Ask the ledger, and say how far this node's own clock is ahead of it."""
        before = self._clock.monotonic()
        told = self._ask()
        after = self._clock.monotonic()
        reading = _Reading(told, (before + after) / 2)
        with self._lock:
            self._reading = reading
        return self._clock.now() - self._now(reading)

    def now(self) -> datetime:
        """See `ClockPort.now`. Asks the ledger only if it was never asked."""
        with self._lock:
            reading = self._reading
        if reading is None:
            self.measure()
            return self.now()
        return self._now(reading)

    def monotonic(self) -> float:
        """See `ClockPort.monotonic`."""
        return self._clock.monotonic()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """See `ClockPort.on_jump`."""
        self._clock.on_jump(callback)

    def _now(self, reading: _Reading) -> datetime:
        return reading.told + timedelta(seconds=self._clock.monotonic() - reading.at)
