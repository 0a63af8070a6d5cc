"""What groups of a row's columns say: often the same, and understood once for all that share them.

People write them by hand. An impossible value is reported as a fault, and the default is used.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from cronhare.domain.draft import Fault, judge_manner, judge_times
from cronhare.domain.durations import LONGEST
from cronhare.domain.echo import echo
from cronhare.domain.policies import LONGEST_POLICY, RetryPolicyInvalid, read_policy
from cronhare.domain.retry import RetryPolicy
from cronhare.domain.schedule import (
    CAPS,
    DEFAULT_MISFIRE,
    DEFAULT_OVERLAP,
    DEFAULT_ZONE,
    LONGEST_EXPRESSION,
    LONGEST_ZONE,
    ByHand,
    Misfire,
    Once,
    OverlapPolicy,
    Recurring,
)
from cronhare.domain.topology import MAIN_QUEUE

from .kept import MANNERS_KEPT, POLICIES_KEPT, TIMES_KEPT, kept

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)

#: Stands for a time that cannot be read.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

SPANS_MS: Final = range(LONGEST // timedelta(milliseconds=1) + 1)

#: The columns that say when.
TIMES: Final = ("schedule", "date_time", "timezone", "starts_at", "ends_at")

#: The columns that say how.
MANNER: Final = (
    "status",
    "retry",
    "misfire_policy",
    "misfire_window_ms",
    "misfire_cap",
    "overlap_policy",
    "timeout_ms",
    "jitter_ms",
    "queue",
)


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule is due; its fields are a draft's, and what they come to."""

    schedule: str | None
    date_time: datetime | None
    timezone: str
    starts_at: datetime | None
    ends_at: datetime | None
    timing: Recurring | Once | ByHand
    faults: tuple[Fault, ...]


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a schedule is run; its fields are a draft's."""

    status: bool
    retry: RetryPolicy | None
    misfire: Misfire
    overlap: OverlapPolicy
    timeout: timedelta | None
    jitter: timedelta
    queue: str
    faults: tuple[Fault, ...]


@kept(entries=TIMES_KEPT)
def read_times(values: tuple[Any, ...]) -> Times:
    """Read the columns of `TIMES`, in their order."""
    schedule, date_time, timezone, starts_at, ends_at = values
    faults: list[Fault] = []

    # Forms that people fill in leave an empty text where nothing is meant.
    expression = _text("schedule", schedule, LONGEST_EXPRESSION, faults) or None
    zone = _text("timezone", timezone, LONGEST_ZONE, faults) or DEFAULT_ZONE
    date_time = _moment("date_time", date_time, faults)
    starts_at = _moment("starts_at", starts_at, faults)
    ends_at = _moment("ends_at", ends_at, faults)
    timing, wrong = judge_times(
        schedule=expression,
        date_time=date_time,
        timezone=zone,
        starts_at=starts_at,
        ends_at=ends_at,
    )
    return Times(
        schedule=expression,
        date_time=date_time,
        timezone=zone,
        starts_at=starts_at,
        ends_at=ends_at,
        timing=timing,
        faults=(*faults, *wrong),
    )


@kept(entries=MANNERS_KEPT)
def read_manner(values: tuple[Any, ...]) -> Manner:
    """Read the columns of `MANNER`."""
    row = dict(zip(MANNER, values, strict=True))
    faults: list[Fault] = []

    def take(field: str, kind: type[T], default: D) -> T | D:
        return _take(field, row[field], kind, default, faults)

    def one_of(field: str, default: E) -> E:
        return _one_of(field, row[field], type(default), default, faults)

    def span(field: str, default: timedelta) -> timedelta:
        milliseconds = take(field, int, None)
        if milliseconds is None:
            return default
        if milliseconds not in SPANS_MS:
            faults.append(Fault(field, f"{echo(milliseconds)} is not 0-{SPANS_MS[-1]:,}"))
            return default
        return timedelta(milliseconds=milliseconds)

    def cap() -> int:
        number = take("misfire_cap", int, DEFAULT_MISFIRE.cap)
        if number in CAPS:
            return number
        faults.append(Fault("misfire_cap", f"{echo(number)} is not {CAPS[0]}-{CAPS[-1]:,}"))
        return DEFAULT_MISFIRE.cap

    timeout = None if row["timeout_ms"] is None else span("timeout_ms", timedelta(0))
    queue = take("queue", str, "") or MAIN_QUEUE
    return Manner(
        status=_status(row["status"], faults),
        retry=_retry(_text("retry", row["retry"], LONGEST_POLICY, faults), faults),
        misfire=Misfire(
            policy=one_of("misfire_policy", DEFAULT_MISFIRE.policy),
            window=span("misfire_window_ms", DEFAULT_MISFIRE.window),
            cap=cap(),
        ),
        overlap=one_of("overlap_policy", DEFAULT_OVERLAP),
        timeout=timeout,
        jitter=span("jitter_ms", timedelta(0)),
        queue=queue,
        faults=(*faults, *judge_manner(timeout=timeout, queue=queue)),
    )


_A: dict[type[Any], str] = {str: "text", int: "a whole number", datetime: "a time"}


def _take(field: str, value: object, kind: type[T], default: D, faults: list[Fault]) -> T | D:
    if value is None:
        return default
    if isinstance(value, kind):
        return value
    faults.append(Fault(field, f"{echo(value)} is not {_A[kind]}"))
    return default


def _moment(field: str, value: object, faults: list[Fault]) -> datetime | None:
    return None if value is None else _take(field, value, datetime, LONG_AGO, faults)


def _text(field: str, value: object, longest: int, faults: list[Fault]) -> str:
    text = _take(field, value, str, "", faults)
    if len(text) <= longest:
        return text
    faults.append(Fault(field, f"{len(text):,} letters, {longest:,} are allowed"))
    return ""


def _status(value: object, faults: list[Fault]) -> bool:
    """Read whether a schedule is on. Without a word it is off."""
    if value is None or value in (0, 1):
        return bool(value)
    faults.append(Fault("status", f"{echo(value)} is not 0 (off) or 1 (on)"))
    return False


def _one_of(field: str, value: object, kinds: type[E], default: E, faults: list[Fault]) -> E:
    if value is None:
        return default
    for kind in kinds:
        if kind.value == value:
            return kind
    faults.append(Fault(field, f"{echo(value)} is none of {', '.join(kinds)}"))
    return default


def _retry(text: str, faults: list[Fault]) -> RetryPolicy | None:
    policy = read_retry(text) if text else None
    if isinstance(policy, str):
        faults.append(Fault("retry", policy))
        return None
    return policy


@kept(entries=POLICIES_KEPT)
def read_retry(text: str) -> RetryPolicy | str:
    """Read a retry policy, or say what is wrong with it."""
    try:
        return read_policy(msgspec.json.decode(text), default=RetryPolicy())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"not JSON: {error}"
    except RetryPolicyInvalid as error:
        return str(error)
