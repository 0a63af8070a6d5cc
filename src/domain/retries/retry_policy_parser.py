"""Reading a retry policy from outside, within bounds (S3.2 in docs/compatibility.md)."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from ..texts.echo import echo
from .backoff import (
    CEILING_MS,
    DEFAULT_DELAY_MS,
    DELAY_MS,
    MULTIPLIERS,
    Backoff,
    BackoffType,
    Jitter,
)
from .crashes import CRASH_LIMITS, CRASH_WINDOWS_MS, CrashPolicy
from .retry import ATTEMPTS, RetryPolicy

_E = TypeVar("_E", BackoffType, Jitter)

LONGEST_DELAYS_MS = range(DELAY_MS.start, CEILING_MS + 1)
MILLISECONDS = "milliseconds"

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
            (f"no preset is called {echo(value)}; there are {_names(presets)}",)
        )
    if not isinstance(value, Mapping):
        raise RetryPolicyInvalid(("a table with attempts and backoff is expected",))
    faults = [*_unknown(value, {"attempts", "backoff", "crashes"}, "retry")]
    attempts = _whole(value, "attempts", default.attempts, ATTEMPTS, faults)
    backoff = _backoff(value.get("backoff", {}), default.backoff, faults)
    crashes = _crashes(value["crashes"], faults) if "crashes" in value else default.crashes
    if faults:
        raise RetryPolicyInvalid(tuple(faults))
    return RetryPolicy(attempts=attempts, backoff=backoff, crashes=crashes)


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
    window = crashes.window // timedelta(milliseconds=1)
    return {"limit": crashes.limit, "window": window, "timeouts": crashes.timeouts}


def _crashes(value: object, faults: list[str]) -> CrashPolicy | None:
    if not isinstance(value, Mapping):
        faults.append("crashes: a table with limit, window and timeouts is expected")
        return None
    usual = CrashPolicy()
    faults += _unknown(value, {"limit", "window", "timeouts"}, "crashes")
    window = usual.window // timedelta(milliseconds=1)
    timeouts = value.get("timeouts", usual.timeouts)
    if not isinstance(timeouts, bool):
        faults.append(f"crashes.timeouts: {echo(timeouts)} is neither true nor false")
    return CrashPolicy(
        limit=_whole(value, "limit", usual.limit, CRASH_LIMITS, faults),
        window=timedelta(
            milliseconds=_whole(value, "window", window, CRASH_WINDOWS_MS, faults, of=MILLISECONDS)
        ),
        timeouts=timeouts is True,
    )


def _backoff(value: object, default: Backoff, faults: list[str]) -> Backoff:
    if isinstance(value, str):
        if value not in BACKOFFS:
            faults.append(f"no backoff is called {echo(value)}; there are {_names(BACKOFFS)}")
        return BACKOFFS.get(value, default)
    if not isinstance(value, Mapping):
        faults.append("backoff: a table or a name is expected")
        return default
    faults += _unknown(value, {"type", "delay", "multiplier", "max_delay", "jitter"}, "backoff")
    kind = _one_of(BackoffType, value, "type", default.type, faults)
    allowed = delays_of(kind)
    sequence = _sequence(value, default, faults) if kind is BackoffType.SEQUENCE else ()
    inherited = default.delay if default.delay in allowed else DEFAULT_DELAY_MS
    delay = (
        sequence[0]
        if sequence
        else _whole(value, "delay", inherited, allowed, faults, of=MILLISECONDS)
    )
    return Backoff(
        type=kind,
        delay=delay,
        multiplier=_multiplier(value, default.multiplier, faults),
        max_delay=_optional(value, "max_delay", _cap(default, delay), faults),
        jitter=_one_of(Jitter, value, "jitter", default.jitter, faults),
        sequence=sequence,
    )


def delays_of(kind: BackoffType) -> range:
    """Give the delays that a backoff may have; linear may retry at once (C34)."""
    return range(DELAY_MS.stop) if kind is BackoffType.LINEAR else DELAY_MS


def _cap(default: Backoff, delay: int) -> int | None:
    """Inherit a cap, unless it is shorter than the delay that was given nearer by."""
    cap = default.max_delay
    return cap if cap is None or cap >= delay or delay == default.delay else None


def _sequence(value: Mapping[str, object], default: Backoff, faults: list[str]) -> tuple[int, ...]:
    delays = value.get("delay", list(default.sequence))
    if not isinstance(delays, list) or not delays or not all(_within(d, DELAY_MS) for d in delays):
        each = _allowed(DELAY_MS, of=MILLISECONDS)
        faults.append(f"backoff.delay of a sequence is a list; each is {each}")
        return (DELAY_MS.start,)
    return tuple(delays)


def _multiplier(value: Mapping[str, object], default: float, faults: list[str]) -> float:
    multiplier = value.get("multiplier", default)
    if isinstance(multiplier, bool) or not isinstance(multiplier, int | float):
        faults.append(f"backoff.multiplier: {echo(multiplier)} is not a number")
        return default
    least, most = MULTIPLIERS
    if not least <= multiplier <= most:
        faults.append(f"backoff.multiplier: {echo(multiplier)} is outside {least}-{most}")
        return default
    return float(multiplier)


def _optional(
    value: Mapping[str, object], field: str, default: int | None, faults: list[str]
) -> int | None:
    if value.get(field, default) is None:
        return None
    return _whole(value, field, default or 0, LONGEST_DELAYS_MS, faults, of=MILLISECONDS)


def _whole(
    value: Mapping[str, object],
    field: str,
    default: int,
    allowed: range,
    faults: list[str],
    *,
    of: str = "",
) -> int:
    number = value.get(field, default)
    if field in value and not _within(number, allowed):
        faults.append(f"{field}: {echo(number)} is not {_allowed(allowed, of=of)}")
        return default
    return number if isinstance(number, int) else default


def _one_of(
    kinds: type[_E], value: Mapping[str, object], field: str, default: _E, faults: list[str]
) -> _E:
    name = value.get(field, default.value)
    for kind in kinds:
        if kind.value == name:
            return kind
    faults.append(f"backoff.{field}: {echo(name)} is none of {_names(kinds)}")
    return default


def _unknown(value: Mapping[str, object], known: set[str], where: str) -> Iterator[str]:
    for field in sorted(value.keys() - known, key=str):
        yield f"{where} has no {echo(field)}; it has {_names(sorted(known))}"


def _within(number: object, allowed: range) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number in allowed


def _allowed(allowed: range, *, of: str = "") -> str:
    unit = of and f" of {of}"
    return f"a whole number{unit} from {allowed.start:,} to {allowed.stop - 1:,}"


def _names(names: Any) -> str:  # noqa: ANN401 - anything whose items read as text
    return ", ".join(str(name) for name in names)
