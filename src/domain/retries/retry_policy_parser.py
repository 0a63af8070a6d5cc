"""Reading a retry policy from outside, within bounds (S3.2 in docs/compatibility.md)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from ..reading import Fault, Invalid, faults_within, read_table, whole_number
from ..texts.printable import echo
from .backoff import (
    CEILING_MS,
    DEFAULT_DELAY_MS,
    DELAY_MS,
    MULTIPLIERS,
    Backoff,
    BackoffType,
    Jitter,
)
from .crashes import CRASH_LIMIT, CRASH_LIMITS, CRASH_WINDOW, CRASH_WINDOWS_MS, CrashPolicy
from .retry import ATTEMPTS, RetryPolicy

T = TypeVar("T")

LONGEST_DELAYS_MS = range(DELAY_MS.start, CEILING_MS + 1)
MILLISECONDS = "milliseconds"
_MILLISECOND: Final = timedelta(milliseconds=1)

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
        """Join the faults into the message."""
        self.faults = faults
        super().__init__(f"{self.code}: {'; '.join(faults)}")


def _milliseconds(allowed: range) -> Meta:
    least, most = allowed[0], allowed[-1]
    words = f"a whole number of {MILLISECONDS}, {least:,}-{most:,}"
    return Meta(ge=least, le=most, description=words)


class _Crashes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, whole_number(CRASH_LIMITS)] = CRASH_LIMIT
    window: Annotated[int, _milliseconds(CRASH_WINDOWS_MS)] = CRASH_WINDOW // _MILLISECOND
    timeouts: bool = True


_Delay = Annotated[int, _milliseconds(DELAY_MS)]
_LEAST, _MOST = MULTIPLIERS
_MULTIPLIER: Final = Meta(ge=_LEAST, le=_MOST, description=f"a number, {_LEAST}-{_MOST}")


class _Backoff(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: BackoffType | UnsetType = UNSET
    delay: _Delay | UnsetType = UNSET
    multiplier: Annotated[float, _MULTIPLIER] | UnsetType = UNSET
    max_delay: Annotated[int, _milliseconds(LONGEST_DELAYS_MS)] | UnsetType | None = UNSET
    jitter: Jitter | UnsetType = UNSET


class _Linear(_Backoff, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It may retry at once (C34)."""

    delay: Annotated[int, _milliseconds(range(DELAY_MS.stop))] | UnsetType = UNSET


_EACH: Final = f"one or more delays, each {_milliseconds(DELAY_MS).description}"
_DELAYS: Final = Meta(min_length=1, description=_EACH)


class _Sequence(_Backoff, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delay: Annotated[tuple[_Delay, ...], _DELAYS] | UnsetType = UNSET  # type: ignore[assignment]


class _Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempts: Annotated[int, whole_number(ATTEMPTS)] | UnsetType = UNSET
    backoff: Any = UNSET  # see `_read_backoff`
    crashes: Any = UNSET


def read_policy(
    value: object, *, default: RetryPolicy, presets: Mapping[str, RetryPolicy] = POLICIES
) -> RetryPolicy:
    """Read `{attempts, backoff: {type, delay, …}, crashes: {…}}`, or the name of one of *presets*.

    What is not given comes from *default*: not its cap, where that is shorter than the delay, and
    of crashes all or nothing.

    >>> read_policy({"attempts": 3, "backoff": {"type": "fixed", "delay": 10000}},
    ...             default=RetryPolicy()).max_retries
    2

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
    faults = list[Fault]()
    said = read_table(_Policy, value, faults, quote=echo)
    policy = RetryPolicy(
        attempts=_given(said.attempts, default.attempts),
        backoff=_read_backoff(said.backoff, default.backoff, faults),
        crashes=default.crashes if said.crashes is UNSET else _read_crashes(said.crashes, faults),
    )
    if faults:
        raise RetryPolicyInvalid(tuple(map(str, faults)))
    return policy


def _read_crashes(value: object, faults: list[Fault]) -> CrashPolicy:
    found = list[Fault]()
    said = read_table(_Crashes, value, found, quote=echo)
    faults += faults_within("crashes", Invalid(found))
    window = said.window * _MILLISECOND
    return CrashPolicy(limit=said.limit, window=window, timeouts=said.timeouts)


def _read_backoff(value: object, default: Backoff, faults: list[Fault]) -> Backoff:
    if value is UNSET:
        return default
    if isinstance(value, str):
        if value not in BACKOFFS:
            problem = f"none is called {echo(value)}; there are {', '.join(BACKOFFS)}"
            faults.append(Fault("backoff", problem))
        return BACKOFFS.get(value, default)
    kind = value.get("type", default.type) if isinstance(value, Mapping) else default.type
    table: type[_Backoff] = _Backoff
    if kind == BackoffType.LINEAR:
        table = _Linear
    elif kind == BackoffType.SEQUENCE:
        table = _Sequence
    found = list[Fault]()
    said = read_table(table, value, found, quote=echo)
    sequence: tuple[int, ...] = ()
    if isinstance(said, _Sequence):
        sequence = _given(said.delay, default.sequence)
        if not sequence and not found:
            found.append(Fault("delay", f"is missing: {_EACH}"))
        delay = sequence[0] if sequence else DEFAULT_DELAY_MS
    else:
        is_allowed = default.delay in DELAY_MS or isinstance(said, _Linear)
        delay = _given(said.delay, default.delay if is_allowed else DEFAULT_DELAY_MS)
    # A cap is inherited, unless it is shorter than the delay that was given nearer by.
    cap = default.max_delay
    if cap is not None and cap < delay != default.delay:
        cap = None
    faults += faults_within("backoff", Invalid(found))
    return Backoff(
        type=_given(said.type, default.type),
        delay=delay,
        multiplier=_given(said.multiplier, default.multiplier),
        max_delay=_given(said.max_delay, cap),
        jitter=_given(said.jitter, default.jitter),
        sequence=sequence,
    )


def _given(said: Any, default: T) -> T:  # noqa: ANN401 - T, or UNSET
    return default if said is UNSET else said


def write_policy(policy: RetryPolicy) -> dict[str, Any]:
    """Write a policy so that `read_policy` gives it back, whatever the default.

    Unless it leaves crashes to the settings, and the default does not.
    """
    backoff, crashes = policy.backoff, policy.crashes
    return {
        "attempts": policy.attempts,
        "backoff": {
            "type": backoff.type.value,
            "delay": list(backoff.sequence) if backoff.sequence else backoff.delay,
            "multiplier": backoff.multiplier,
            "max_delay": backoff.max_delay,
            "jitter": backoff.jitter.value,
        },
        **({} if crashes is None else {"crashes": _write_crashes(crashes)}),
    }


def _write_crashes(crashes: CrashPolicy) -> dict[str, Any]:
    window = crashes.window // _MILLISECOND
    return {"limit": crashes.limit, "window": window, "timeouts": crashes.timeouts}
