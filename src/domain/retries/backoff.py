"""How long to wait before a retry, or before a server is asked again: ever longer, up to a cap.

Before retry number n, from 1: T(n) = delay x multiplier^(n-1), capped, jittered, capped (C4 in
docs/compatibility.md). Its delays are whole milliseconds.
"""

import enum
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Generic, TypeVar

import attrs

#: Seconds, or a span of time.
W = TypeVar("W", float, timedelta)

#: The bounds (S3.2) and defaults (S0.1) of a policy, in milliseconds. No wait is longer than the
#: ceiling, whatever the multiplier.
DELAY_MS: Final = range(1_000, 3_600_000 + 1)
DEFAULT_DELAY_MS: Final = 30_000
MULTIPLIERS: Final = (1, 100)
DEFAULT_MULTIPLIER: Final = 2.0
CEILING_MS: Final = 7 * 24 * 3600 * 1000

#: A row that somebody keeps locked, or that the ledger refuses, is asked for again after so long.
REST: Final = timedelta(minutes=1)


class BackoffType(enum.StrEnum):
    """How the waits grow."""

    EXPONENTIAL = "exponential"
    FIXED = "fixed"
    LINEAR = "linear"
    SEQUENCE = "sequence"


class Jitter(enum.StrEnum):
    """How chance spreads the waits (C17 in docs/compatibility.md)."""

    NONE = "none"  # the default: 30, 60, 120 s exactly
    PLUS = "plus"  # up to 10 % more
    BOTH = "both"  # up to 10 % less or more
    FULL = "full"  # anything between nothing and the whole


@attrs.frozen(kw_only=True)
class Backoff:
    """The waits of a retry policy, in milliseconds.

    Only `SEQUENCE` uses *sequence*; its last value is repeated.
    """

    type: BackoffType = BackoffType.EXPONENTIAL
    delay: int = DEFAULT_DELAY_MS
    multiplier: float = DEFAULT_MULTIPLIER
    max_delay: int | None = None
    jitter: Jitter = Jitter.NONE
    sequence: tuple[int, ...] = ()

    def wait(self, retry: int, *, random_fraction: float = 0.0) -> timedelta:
        """Say how long to wait before retry number *retry* (1, 2, 3 …).

        *random_fraction* is in [0, 1) and comes from the caller: equal input, equal answer.

        >>> [Backoff(delay=10_000, multiplier=1.5).wait(n).total_seconds() for n in (1, 2, 3, 4, 5)]
        [10.0, 15.0, 22.5, 33.75, 50.625]
        """
        capped = min(self._grown(retry), self._cap)
        jittered = min(_jittered(capped, self.jitter, random_fraction), self._cap)
        return timedelta(milliseconds=math.floor(jittered + 0.5))

    def unspread(self, retry: int) -> timedelta:
        """Say how long that wait is before chance spreads it."""
        return timedelta(milliseconds=math.floor(min(self._grown(retry), self._cap) + 0.5))

    @property
    def _cap(self) -> int:
        return CEILING_MS if self.max_delay is None else min(self.max_delay, CEILING_MS)

    def _grown(self, retry: int) -> float:
        match self.type:
            case BackoffType.FIXED:
                return self.delay
            case BackoffType.LINEAR:
                return self.delay * retry
            case BackoffType.SEQUENCE:
                return self.sequence[min(retry, len(self.sequence)) - 1]
            case BackoffType.EXPONENTIAL:
                return exponential(
                    float(self.delay), retry - 1, math.inf, multiplier=self.multiplier
                )


def exponential(first: W, times: int, longest: W, *, multiplier: float = 2.0) -> W:
    """The wait that has grown so many *times*, at most *longest*.

    >>> [exponential(0.5, times, 3.0) for times in (0, 1, 2, 3, 10**6)]
    [0.5, 1.0, 2.0, 3.0, 3.0]
    """
    try:
        return min(first * multiplier**times, longest)
    except OverflowError:
        return longest


class Waits(Generic[W]):
    """The waits between repeated requests: each twice as long, up to *longest*.

    With *random_fraction*, which gives numbers in [0, 1), each is between half of that and all of
    it: not all clients meet a server at once when it comes back.
    """

    def __init__(
        self, first: W, longest: W, random_fraction: Callable[[], float] | None = None
    ) -> None:
        self._first: W = first
        self._longest: W = longest
        self._random_fraction = random_fraction
        self._failures = 0

    def reset(self) -> None:
        """Begin anew after a success."""
        self._failures = 0

    def next(self, *, longest: W | None = None) -> W:
        """Give the next wait; *longest* replaces the cap this time."""
        wait = exponential(self._first, self._failures, longest or self._longest)
        self._failures += 1
        return wait if self._random_fraction is None else wait * ((1 + self._random_fraction()) / 2)


def _jittered(delay: float, jitter: Jitter, random_fraction: float) -> float:
    match jitter:
        case Jitter.NONE:
            return delay
        case Jitter.PLUS:
            return delay * (1 + 0.1 * random_fraction)
        case Jitter.BOTH:
            return delay * (0.9 + 0.2 * random_fraction)
        case Jitter.FULL:
            return delay * random_fraction
