"""Retry policies: how often to try and how long to wait, and how they are read.

Before retry number n, from 1, T(n) = delay x multiplier^(n-1), capped, jittered, capped (C4 in
docs/compatibility.md). The delays of a policy are whole milliseconds.
"""

import enum
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Final, Generic, TypeVar

import attrs
from msgspec import Meta, Struct

from ..reading import (
    MILLISECONDS,
    Fault,
    Invalid,
    Reads,
    faults_within,
    read_table,
    read_whole,
    whole_number,
)
from ..texts.printable import echo
from .outcome import CrashPolicy

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


#: The attempts in all that a policy may have, and has by default (S3.2, S0.1 in
#: docs/compatibility.md).
ATTEMPTS = range(1, 20 + 1)
DEFAULT_ATTEMPTS = 4


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


#: By what a wait is multiplied at least, and by how much more at most.
_FACTORS: Final = {
    Jitter.NONE: (1.0, 0.0),
    Jitter.PLUS: (1.0, 0.1),
    Jitter.BOTH: (0.9, 0.2),
    Jitter.FULL: (0.0, 1.0),
}


@attrs.frozen(kw_only=True)
class Backoff:
    """The waits in ms; `SEQUENCE` alone uses *sequence*, whose last value is repeated."""

    type: BackoffType = BackoffType.EXPONENTIAL
    delay: int = DEFAULT_DELAY_MS
    multiplier: float = DEFAULT_MULTIPLIER
    max_delay: int | None = None
    jitter: Jitter = Jitter.NONE
    sequence: tuple[int, ...] = ()

    def wait(self, retry: int, *, random_fraction: float = 0.0) -> timedelta:
        """Give the wait before retry number *retry* (1, 2 …); *random_fraction* is in [0, 1)."""
        cap = CEILING_MS if self.max_delay is None else min(self.max_delay, CEILING_MS)
        least, spread = _FACTORS[self.jitter]
        jittered = min(self._grown(retry), cap) * (least + spread * random_fraction)
        return timedelta(milliseconds=math.floor(min(jittered, cap) + 0.5))

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


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often to try in all, and how long to wait in between.

    *attempts* counts the first run as well: `CRON_MAX_RETRIES` is one less. Without *crashes* the
    settings say what a poison pill is.
    """

    attempts: int = DEFAULT_ATTEMPTS
    backoff: Backoff = attrs.field(factory=Backoff)
    crashes: CrashPolicy | None = None

    @property
    def max_retries(self) -> int:
        return self.attempts - 1


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
    """The waits between repeated requests: each twice as long, by chance up to half shorter."""

    def __init__(
        self, first: W, longest: W, random_fraction: Callable[[], float] | None = None
    ) -> None:
        self._first: W = first
        self._longest: W = longest
        self._random_fraction = random_fraction
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self, *, longest: W | None = None) -> W:
        """Give the next wait; *longest* replaces the cap this time."""
        wait = exponential(self._first, self._failures, longest or self._longest)
        self._failures += 1
        return wait if self._random_fraction is None else wait * ((1 + self._random_fraction()) / 2)


LONGEST_DELAYS_MS = range(DELAY_MS.start, CEILING_MS + 1)

#: The most characters of JSON that are read as a policy: ten times a sensible one.
LONGEST_POLICY = 4_096

#: The cap of the original's strategies (S2.1).
LONGEST_WAIT_MS = 300_000

_CONSERVATIVE = Backoff(delay=5_000, max_delay=LONGEST_WAIT_MS)

#: Strategies by name (S2.2 in docs/compatibility.md). The original calls the slower one aggressive:
#: that name means the conservative one (C23).
BACKOFFS = {
    "standard": Backoff(delay=2_000, max_delay=LONGEST_WAIT_MS),
    "conservative": _CONSERVATIVE,
    "aggressive": _CONSERVATIVE,
    "fixed": Backoff(type=BackoffType.FIXED, delay=60_000, max_delay=LONGEST_WAIT_MS),
}

#: Presets by name: S2.3, S0.13 and C37 in docs/compatibility.md.
POLICIES = {
    "emails": RetryPolicy(attempts=4, backoff=BACKOFFS["standard"]),
    "webhooks": RetryPolicy(attempts=6, backoff=BACKOFFS["aggressive"]),
    "payments": RetryPolicy(attempts=3, backoff=BACKOFFS["fixed"]),
    "fast-failing": RetryPolicy(attempts=4, backoff=Backoff(delay=10_000)),
    "slow-recovering": RetryPolicy(attempts=6, backoff=Backoff(delay=60_000, multiplier=1.5)),
    "lease-style": RetryPolicy(attempts=4, backoff=Backoff(type=BackoffType.LINEAR, delay=600_000)),
}


class RetryPolicyInvalid(ValueError):
    """A retry policy that is refused at creation; *faults* names everything that is wrong."""

    code = "SCHEDULE_RETRY_POLICY_INVALID"

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__(f"{self.code}: {'; '.join(faults)}")


_milliseconds = partial(whole_number, of=MILLISECONDS)
_Delay = Annotated[int, _milliseconds(DELAY_MS)]
_LEAST, _MOST = MULTIPLIERS
_MULTIPLIER: Final = Meta(ge=_LEAST, le=_MOST, description=f"a number, {_LEAST}-{_MOST}")


class _Backoff(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: BackoffType = BackoffType.EXPONENTIAL
    delay: _Delay = DEFAULT_DELAY_MS
    multiplier: Annotated[float, _MULTIPLIER] = DEFAULT_MULTIPLIER
    max_delay: Annotated[int, _milliseconds(LONGEST_DELAYS_MS)] | None = None
    jitter: Jitter = Jitter.NONE


class _Linear(_Backoff, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It may retry at once (C34)."""

    delay: Annotated[int, _milliseconds(range(DELAY_MS.stop))] = DEFAULT_DELAY_MS


_EACH: Final = f"one or more delays, each {_milliseconds(DELAY_MS).description}"
_DELAYS: Final = Meta(min_length=1, description=_EACH)


class _Sequence(_Backoff, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delay: Annotated[tuple[_Delay, ...], _DELAYS] = ()  # type: ignore[assignment]


_TABLES: Final[Mapping[str, type[_Backoff]]] = {
    BackoffType.LINEAR: _Linear,
    BackoffType.SEQUENCE: _Sequence,
}


class _Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempts: Annotated[int, whole_number(ATTEMPTS)] = DEFAULT_ATTEMPTS
    backoff: Any = None  # see `_read_backoff`
    crashes: Annotated[Any, Reads(partial(read_whole, CrashPolicy, quote=echo))] = None


def read_policy(
    value: object, *, default: RetryPolicy, presets: Mapping[str, RetryPolicy] = POLICIES
) -> RetryPolicy:
    """Read `{attempts, backoff: {type, delay, …}, crashes: {…}}`, or the name of one of *presets*.

    What is not given comes from *default*: not its cap, where that is shorter than the delay, and
    of crashes all or nothing.

    Raises:
        RetryPolicyInvalid: with every fault at once.
    """
    if isinstance(value, str):
        if value in presets:
            return presets[value]
        raise RetryPolicyInvalid(
            (f"no preset is called {echo(value)}; there are {', '.join(presets)}",)
        )
    if not isinstance(value, Mapping):
        raise RetryPolicyInvalid(("a table with attempts and backoff is expected",))
    faults, backoff = list[Fault](), default.backoff
    said = read_table(_Policy, {"attempts": default.attempts, **value}, faults, quote=echo)
    if "backoff" in value:
        try:
            backoff = _read_backoff(value["backoff"], backoff)
        except ValueError as error:
            faults += faults_within("backoff", error)
    if faults:
        raise RetryPolicyInvalid(tuple(map(str, faults)))
    crashes = said.crashes or default.crashes
    return RetryPolicy(attempts=said.attempts, backoff=backoff, crashes=crashes)


def _read_backoff(value: object, default: Backoff) -> Backoff:
    if isinstance(value, str):
        if value in BACKOFFS:
            return BACKOFFS[value]
        raise ValueError(f"none is called {echo(value)}; there are {', '.join(BACKOFFS)}")
    if not isinstance(value, Mapping):
        raise Invalid([Fault("", f"{echo(value)} is not a table")])
    kind, inherited = value.get("type", default.type), _write_backoff(default)
    table = _TABLES.get(kind if isinstance(kind, str) else "", _Backoff)
    if table is not _Sequence:
        is_allowed = default.delay in DELAY_MS or table is _Linear
        inherited["delay"] = default.delay if is_allowed else DEFAULT_DELAY_MS
    elif not default.sequence:
        del inherited["delay"]
    faults = list[Fault]()
    said = read_table(table, {**inherited, **value}, faults, quote=echo)
    if isinstance(said, _Sequence) and not said.delay and not faults:
        faults.append(Fault("delay", f"is missing: {_EACH}"))
    if faults:
        raise Invalid(faults)
    sequence = said.delay if isinstance(said, _Sequence) else ()
    delay, cap = (sequence[0] if sequence else said.delay), said.max_delay
    # A cap is inherited, unless it is shorter than the delay that was given nearer by.
    if "max_delay" not in value and cap is not None and cap < delay != default.delay:
        cap = None
    return Backoff(
        type=said.type,
        delay=delay,
        multiplier=said.multiplier,
        max_delay=cap,
        jitter=said.jitter,
        sequence=sequence,
    )


def write_policy(policy: RetryPolicy) -> dict[str, Any]:
    """Write a policy so that `read_policy` gives it back, whatever the default.

    Unless it leaves crashes to the settings, and the default does not.
    """
    written = {"attempts": policy.attempts, "backoff": _write_backoff(policy.backoff)}
    if (crashes := policy.crashes) is not None:
        window = crashes.window // timedelta(milliseconds=1)
        written["crashes"] = {**attrs.asdict(crashes), "window": window}
    return written


def _write_backoff(backoff: Backoff) -> dict[str, Any]:
    return {
        "type": backoff.type.value,
        "delay": list(backoff.sequence) if backoff.sequence else backoff.delay,
        "multiplier": backoff.multiplier,
        "max_delay": backoff.max_delay,
        "jitter": backoff.jitter.value,
    }


#: The most characters of `module:function`.
LONGEST_STRATEGY: Final = 255


@attrs.frozen
class Strategy:
    """A function that chooses the wait before a retry; its module is looked for in *folder* too.

    It is code, so it comes from the worker's own file: no row and no message can name one.
    """

    module: str
    function: str
    folder: PurePath

    @classmethod
    def parse(cls, text: str, *, folder: PurePath) -> "Strategy":
        """Read `module:function`; a `ValueError` says what one is."""
        module, colon, function = text.partition(":")
        names = [*module.split("."), function]
        if not colon or len(text) > LONGEST_STRATEGY or not all(map(str.isidentifier, names)):
            raise ValueError(f'{echo(text)} is no function; write "module:function"')
        return cls(module, function, folder)

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"
