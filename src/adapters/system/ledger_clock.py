"""The ledger's time, kept on this node: one clock decides, and nobody waits for it."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

#: A wall clock that has gone so far from the stopwatch was set, or the machine stood still.
STEP: Final = timedelta(seconds=1)


@attrs.frozen
class _Reading:
    """What the ledger *told* was right at some time in *took* seconds, of which *at* is the middle.

    Both times are of the stopwatch; *wall* is what the wall clock showed then.
    """

    told: datetime
    at: float
    wall: datetime
    took: float

    def is_contradicted_by(self, other: "_Reading") -> bool:
        """Tell whether the ledger's time cannot have been by both."""
        apart = other.told - self.told - timedelta(seconds=other.at - self.at)
        return abs(apart) > timedelta(seconds=(self.took + other.took) / 2)


class LedgerClock:
    """Satisfies `ClockPort`: what the ledger told last, and the time on the stopwatch since.

    A node whose own clock is wrong by an hour thereby does everything at the right time; how
    wrong it is, `measure` tells. Once wall clock and stopwatch disagree one of them has leapt, and
    nobody knows which: the ledger is asked again. That may take a while, so whoever serves an event
    loop reads this clock in a thread.
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
        took = after - before
        reading = self._best(
            _Reading(told, (before + after) / 2, self._wall(since=took / 2), took=took)
        )
        return self._clock.now() - self._now(reading)

    def _best(self, new: _Reading) -> _Reading:
        """Keep what is known if the *new* reading took longer and does not contradict it."""
        with self._lock:
            known = self._reading
            if known is None or new.took <= known.took or known.is_contradicted_by(new):
                self._reading = new
            else:
                self._reading = attrs.evolve(known, wall=known.wall + self._leap(known))
            return self._reading

    def now(self) -> datetime:
        """See `ClockPort.now`. Asks the ledger only if it was never asked, or time has leapt."""
        with self._lock:
            reading = self._reading
        if reading is None:
            self.measure()
            return self.now()
        if abs(self._leap(reading)) > STEP:
            self._measure_anew(reading)
            return self.now()
        return self._now(reading)

    def monotonic(self) -> float:
        """See `ClockPort.monotonic`."""
        return self._clock.monotonic()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """See `ClockPort.on_jump`."""
        self._clock.on_jump(callback)

    def _measure_anew(self, reading: _Reading) -> None:
        """Ask once. While the ledger is away the last answer stands, by the stopwatch."""
        try:
            self.measure()
        except LedgerUnavailable:
            accepted = attrs.evolve(reading, wall=reading.wall + self._leap(reading))
            with self._lock:
                if self._reading is reading:  # or another thread was answered meanwhile
                    self._reading = accepted

    def _leap(self, reading: _Reading) -> timedelta:
        return self._wall(since=self._clock.monotonic() - reading.at) - reading.wall

    def _wall(self, *, since: float) -> datetime:
        return self._clock.now() - timedelta(seconds=since)

    def _now(self, reading: _Reading) -> datetime:
        return reading.told + timedelta(seconds=self._clock.monotonic() - reading.at)


class HostClock:
    """Satisfies `ClockPort` for a ledger in a file, whose time is this host's, set or not.

    All processes then have one time at any moment: a lease that was written after the clock was
    set has not lapsed for whoever reads it.
    """

    def __init__(self, clock: ClockPort) -> None:
        """*clock* is the one that the ledger is kept by as well."""
        self._clock = clock

    def measure(self) -> timedelta:
        """See `LedgerClock.measure`."""
        return timedelta(0)

    def now(self) -> datetime:
        """See `ClockPort.now`."""
        return self._clock.now()

    def monotonic(self) -> float:
        """See `ClockPort.monotonic`."""
        return self._clock.monotonic()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """See `ClockPort.on_jump`."""
        self._clock.on_jump(callback)
