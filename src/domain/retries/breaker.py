"""The circuit breaker of a task: where most attempts fail, no retry helps (S0.12).

Closed, it counts failures. Once their rate among the attempts of a window is too high, it opens:
what fails, fails for good, while new runs still start. After a pause it is half open: one retry is
the probe of all nodes, and after another pause the next one. It closes when a probe succeeds, or
anything else of the task since, and opens again when a probe fails.

S0.12 is a line of docs/compatibility.md.
"""

import enum
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from ..texts.words import called
from .leaps import was_ahead

#: The reason of what an open breaker lets fail, in the words of S0.12.
ACTIVATED: Final = "Circuit breaker activated"

DEFAULT_ERROR_RATE: Final = 0.5
DEFAULT_LEAST: Final = 10
DEFAULT_WINDOW: Final = timedelta(seconds=300)
DEFAULT_PAUSE: Final = timedelta(seconds=60)

#: The bounds of a breaker.
ERROR_RATES: Final = (0.01, 0.99)
LEASTS: Final = range(2, 10_000 + 1)
LONGEST: Final = timedelta(days=1)

#: Failures are counted in so many parts of a window, the oldest of which is counted in full.
PARTS: Final = 64

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BreakerState(enum.StrEnum):
    """The states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@attrs.frozen(kw_only=True)
class BreakerPolicy:
    """When a breaker opens: at an error rate above *error_rate* of *least* attempts or more."""

    error_rate: float = DEFAULT_ERROR_RATE
    least: int = DEFAULT_LEAST
    window: timedelta = DEFAULT_WINDOW
    pause: timedelta = DEFAULT_PAUSE

    def trips(self, failed: int, succeeded: int) -> bool:
        """Tell whether so many attempts of a window open it."""
        attempts = failed + succeeded
        return attempts >= self.least and failed > self.error_rate * attempts

    def enough(self, failed: int) -> int:
        """Give how many successes say that so many failures open nothing, nor soon after."""
        healthy = int(failed * (1 - self.error_rate) / self.error_rate) + 1
        return 2 * max(healthy, self.least)

    def fewest(self, succeeded: int) -> int:
        """Give how many failures open it at least, beside so many successes."""
        above = int(succeeded * self.error_rate / (1 - self.error_rate)) + 1
        return max(above, self.least - succeeded)

    def since(self, now: datetime) -> datetime:
        """Give when the attempts begin that count now."""
        return self._part_of(now - self.window)

    def _part_of(self, moment: datetime) -> datetime:
        part = self.window / PARTS
        return _EPOCH + (moment - _EPOCH) // part * part

    def counted(self, failures: "Failures", now: datetime) -> "Failures":
        """Count one more failure, and forget those that are too old."""
        numbers = dict(failures)
        numbers[self._part_of(now)] = numbers.get(self._part_of(now), 0) + 1
        return tuple(each for each in sorted(numbers.items()) if self.since(now) <= each[0] <= now)


#: Beginnings of parts of a window, and how many attempts failed in each.
Failures = tuple[tuple[datetime, int], ...]


@attrs.frozen(kw_only=True)
class Breaker:
    """What is known of a task, `report 25`, with its *name* in a jobs file.

    *judged_at* and *next_failures* say when the rate is to be asked for again: after a while, or at
    so many failures. An open one has *opened_at*, the numbers of that moment, and *probe_at*, the
    end of its pause; a half-open one the execution that is its *probe* as well, and *probe_at* is
    from when another may be. *last_at* is when it changed last.
    """

    task: str
    window: timedelta
    last_at: datetime
    name: str | None = None
    failures: Failures = ()
    judged_at: datetime | None = None
    next_failures: int = 0
    opened_at: datetime | None = None
    failed: int = 0
    succeeded: int = 0
    probe_at: datetime | None = None
    probe: int | None = None

    @property
    def said(self) -> str:
        """Name its task as people do."""
        return called(self.task, name=self.name)

    def state(self, now: datetime) -> BreakerState:
        """Tell its state. One that nobody asks for a whole window after its pause is closed.

        So is one that a clock opened which has been set back since.
        """
        if self.opened_at is None or self.probe_at is None or was_ahead(self.last_at, now):
            return BreakerState.CLOSED
        if self.probe is not None:
            return BreakerState.HALF_OPEN
        if now >= self.probe_at + self.window:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.probe_at else BreakerState.HALF_OPEN

    @property
    def failing(self) -> int:
        """The failures that are counted."""
        return sum(number for _, number in self.failures)

    def failing_since(self, moment: datetime) -> int:
        """Count the failures since then, and what else failed in that part of the window."""
        return sum(number for at, number in self.failures if at > moment - self.window / PARTS)

    def count(self, policy: BreakerPolicy, now: datetime) -> "Breaker":
        """Count a failure."""
        failures = policy.counted(self.failures, now)
        return attrs.evolve(self, failures=failures, window=policy.window)

    def is_to_be_judged(self, policy: BreakerPolicy, now: datetime) -> bool:
        """Tell whether the successes are to be counted: they are many, and counting takes time."""
        if self.failing <= policy.error_rate * policy.least:
            return False
        is_stale = self.judged_at is None or (abs(now - self.judged_at) >= policy.window / PARTS)
        return is_stale or self.failing >= self.next_failures

    def judged(self, policy: BreakerPolicy, succeeded: int, now: datetime) -> "Breaker":
        """Open it if the rate is too high; if not, note when to judge again."""
        if policy.trips(self.failing, succeeded):
            return attrs.evolve(
                self,
                failures=(),
                judged_at=None,
                opened_at=now,
                failed=self.failing,
                succeeded=succeeded,
                probe_at=now + policy.pause,
                probe=None,
            )
        return attrs.evolve(self, judged_at=now, next_failures=policy.fewest(succeeded))

    def probing(self, execution_id: int, policy: BreakerPolicy, now: datetime) -> "Breaker":
        """Let an execution be the probe, for a pause: it may wait for hours itself."""
        return attrs.evolve(self, probe=execution_id, probe_at=now + policy.pause)

    def has_probe(self, now: datetime) -> bool:
        """Tell whether no other execution may be the probe yet."""
        return self.probe is not None and self.probe_at is not None and now < self.probe_at

    def reopened(self, policy: BreakerPolicy, now: datetime) -> "Breaker":
        """Open it again, as its probe has failed."""
        return attrs.evolve(self, probe=None, probe_at=now + policy.pause)

    def without_probe(self) -> "Breaker":
        """Wait for another probe, as this one has ended without a result."""
        return attrs.evolve(self, probe=None)

    def closed(self) -> "Breaker":
        """Close it, and count anew."""
        return Breaker(task=self.task, name=self.name, window=self.window, last_at=self.last_at)


@attrs.frozen(kw_only=True)
class BreakerOpened:
    """It has opened; *again* says that a probe has failed."""

    breaker: Breaker
    again: bool = False


@attrs.frozen(kw_only=True)
class BreakerProbed:
    """It is half open: the execution *breaker.probe* is its probe."""

    breaker: Breaker


@attrs.frozen(kw_only=True)
class BreakerClosed:
    """It has closed, open since *opened_at*; *proven* by a probe, or as nobody asked for long."""

    breaker: Breaker
    opened_at: datetime
    proven: bool
