"""The machine's own clock, and the ledger's time as it is kept on this node."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from cronhare.ports import LedgerUnavailable
from cronhare.ports.system import ClockPort

#: Linux stops CLOCK_MONOTONIC while the machine is suspended; other systems have no CLOCK_BOOTTIME.
_STOPWATCH = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Satisfies `ClockPort` with the machine's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def peek(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since a fixed moment. Never goes back, and counts a suspend, as leases lapse."""
        return time.clock_gettime(_STOPWATCH)

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: this clock is not moved by calls."""


#: If wall clock and stopwatch differ by more, one was set, or the machine was suspended.
STEP: Final = timedelta(seconds=1)


@attrs.frozen
class _Reading:
    """The ledger's time *ledger*, true at some moment of the *took* seconds around *at*.

    Both are seconds of the stopwatch; *wall* is what the wall clock showed *at* that moment.
    """

    ledger: datetime
    at: float
    wall: datetime
    took: float

    def is_contradicted_by(self, other: "_Reading") -> bool:
        apart = other.ledger - self.ledger - timedelta(seconds=other.at - self.at)
        return abs(apart) > timedelta(seconds=(self.took + other.took) / 2)


class _NodeClock:
    """The part of a clock that is this host's: the stopwatch."""

    def __init__(self, clock: ClockPort) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def on_jump(self, callback: Callable[[], None]) -> None:
        self._clock.on_jump(callback)


class LedgerClock(_NodeClock):
    """Satisfies `ClockPort`: the ledger's last answer, and the time on the stopwatch since.

    So a node whose own clock is wrong by an hour does everything at the right time; `measure` gives
    the error. If wall clock and stopwatch disagree, one of them has leapt, and the ledger is asked
    again. That blocks: read this clock in a thread, not in an event loop.
    """

    def __init__(self, ask: Callable[[], datetime], clock: ClockPort) -> None:
        """*ask* returns the ledger's time, or raises `LedgerUnavailable`."""
        super().__init__(clock)
        self._ask = ask
        self._lock = threading.Lock()
        self._reading: _Reading | None = None

    def measure(self) -> timedelta:
        """Ask the ledger, and return how far this node's own clock is ahead of it."""
        before = self._clock.monotonic()
        ledger = self._ask()
        after = self._clock.monotonic()
        took = after - before
        new = _Reading(ledger, (before + after) / 2, self._wall(since=took / 2), took=took)
        return self._clock.now() - self._now(self._best(new))

    def _best(self, new: _Reading) -> _Reading:
        with self._lock:
            known = self._reading
            if known is None or new.took <= known.took or known.is_contradicted_by(new):
                self._reading = new
            else:
                self._reading = attrs.evolve(known, wall=known.wall + self._leap(known))
            return self._reading

    def now(self) -> datetime:
        """See `ClockPort.now`. Asks the ledger only the first time, or if a clock has leapt."""
        while (known := self.peek()) is None:
            if (reading := self._reading) is None:
                self.measure()
            else:
                self._measure_anew(reading)
        return known

    def peek(self) -> datetime | None:
        reading = self._reading
        if reading is None or abs(self._leap(reading)) > STEP:
            return None
        return self._now(reading)

    def _measure_anew(self, reading: _Reading) -> None:
        """Ask once. While the ledger is unavailable, the last answer stands, by the stopwatch."""
        try:
            self.measure()
        except LedgerUnavailable:
            accepted = attrs.evolve(reading, wall=reading.wall + self._leap(reading))
            with self._lock:
                if self._reading is reading:  # else another thread has a newer one
                    self._reading = accepted

    def _leap(self, reading: _Reading) -> timedelta:
        return self._wall(since=self._clock.monotonic() - reading.at) - reading.wall

    def _wall(self, *, since: float) -> datetime:
        return self._clock.now() - timedelta(seconds=since)

    def _now(self, reading: _Reading) -> datetime:
        return reading.ledger + timedelta(seconds=self._clock.monotonic() - reading.at)


class HostClock(_NodeClock):
    """Satisfies `ClockPort` for a ledger in a file, whose time is *clock*'s, even if it is set.

    So all processes have one time: a lease that one wrote after the clock was set has not lapsed
    for the others.
    """

    def measure(self) -> timedelta:
        return timedelta(0)

    def now(self) -> datetime:
        return self._clock.now()

    def peek(self) -> datetime:
        return self._clock.now()
