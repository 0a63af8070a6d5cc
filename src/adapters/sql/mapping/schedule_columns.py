"""Groups of a schedule's columns, read once for all rows that share their values.

People write them by hand. An impossible value is reported as a fault, and the default is used.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.retries.retry_policy_parser import (
    LONGEST_POLICY,
    RetryPolicyInvalid,
    read_policy,
    write_policy,
)
from cronhare.domain.schedules.draft import (
    Fault,
    ScheduleDraft,
    kept_fields,
    validate_run_options,
    validate_times,
)
from cronhare.domain.schedules.schedule import (
    CAPS,
    DEFAULT_MISFIRE,
    DEFAULT_OVERLAP,
    DEFAULT_ZONE,
    LONGEST_EXPRESSION,
    LONGEST_ZONE,
    Misfire,
)
from cronhare.domain.texts.durations import LONGEST
from cronhare.domain.texts.echo import echo
from cronhare.domain.topology import MAIN_QUEUE

from ..schema.types import milliseconds
from .bounded_cache import POLICIES_CACHED, RUN_OPTIONS_CACHED, TIMES_CACHED, cached

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)

#: Replaces a time that cannot be read.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

SPANS_MS: Final = range(LONGEST // timedelta(milliseconds=1) + 1)

#: The columns that say when.
TIME_COLUMNS: Final = ("schedule", "date_time", "timezone", "starts_at", "ends_at")

#: How each column of the run options is written from a draft.
_RUN_OPTIONS: Final[Mapping[str, Callable[[ScheduleDraft], object]]] = {
    "status": lambda draft: draft.status,
    "retry": lambda draft: write_retry(draft.retry),
    "misfire_policy": lambda draft: draft.misfire.policy.value,
    "misfire_window_ms": lambda draft: milliseconds(draft.misfire.window),
    "misfire_cap": lambda draft: draft.misfire.cap,
    "overlap_policy": lambda draft: draft.overlap.value,
    "timeout_ms": lambda draft: milliseconds(draft.timeout),
    "jitter_ms": lambda draft: milliseconds(draft.jitter),
    "queue": lambda draft: draft.queue,
}
#: The columns that say how a schedule is run.
RUN_OPTION_COLUMNS: Final = tuple(_RUN_OPTIONS)


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a schedule, as its draft has them and as the schedule itself; with their faults."""

    draft: Mapping[str, Any]
    schedule: Mapping[str, Any]
    faults: tuple[Fault, ...]


class ScheduleTimes(_Fields, frozen=True, kw_only=True):
    """When a schedule is due."""


class RunOptions(_Fields, frozen=True, kw_only=True):
    """How a schedule is run."""


def column_values(draft: ScheduleDraft) -> dict[str, object]:
    """Write a draft as `TIME_COLUMNS` and `RUN_OPTION_COLUMNS`."""
    times = {column: getattr(draft, column) for column in TIME_COLUMNS}
    return times | {column: write(draft) for column, write in _RUN_OPTIONS.items()}


@cached(entries=TIMES_CACHED)
def read_times(values: tuple[Any, ...]) -> ScheduleTimes:
    """Read `TIME_COLUMNS`, in their order."""
    schedule, date_time, timezone, starts_at, ends_at = values
    faults: list[Fault] = []

    # Forms that people fill in leave an empty text where nothing is meant.
    expression = _text("schedule", schedule, LONGEST_EXPRESSION, faults) or None
    zone = _text("timezone", timezone, LONGEST_ZONE, faults) or DEFAULT_ZONE
    date_time = _moment("date_time", date_time, faults)
    starts_at = _moment("starts_at", starts_at, faults)
    ends_at = _moment("ends_at", ends_at, faults)
    said: dict[str, Any] = dict(
        zip(TIME_COLUMNS, (expression, date_time, zone, starts_at, ends_at), strict=True)
    )
    timing, wrong = validate_times(**said)
    return ScheduleTimes(
        draft=said,
        schedule={**kept_fields(said), "timing": timing},
        faults=(*faults, *wrong),
    )


@cached(entries=RUN_OPTIONS_CACHED)
def read_run_options(values: tuple[Any, ...]) -> RunOptions:
    """Read `RUN_OPTION_COLUMNS`, in their order."""
    row = dict(zip(RUN_OPTION_COLUMNS, values, strict=True))
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
    said = {
        "status": _status(row["status"], faults),
        "retry": _retry(_text("retry", row["retry"], LONGEST_POLICY, faults), faults),
        "misfire": Misfire(
            policy=one_of("misfire_policy", DEFAULT_MISFIRE.policy),
            window=span("misfire_window_ms", DEFAULT_MISFIRE.window),
            cap=cap(),
        ),
        "overlap": one_of("overlap_policy", DEFAULT_OVERLAP),
        "timeout": timeout,
        "jitter": span("jitter_ms", timedelta(0)),
        "queue": queue,
    }
    return RunOptions(
        draft=said,
        schedule=kept_fields(said),
        faults=(*faults, *validate_run_options(timeout=timeout, queue=queue)),
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
    """Read whether a schedule is on; NULL is off."""
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


@cached(entries=POLICIES_CACHED)
def read_retry(text: str) -> RetryPolicy | str:
    """Read a retry policy, or say what is wrong with it."""
    try:
        return read_policy(msgspec.json.decode(text), default=RetryPolicy())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"not JSON: {error}"
    except RetryPolicyInvalid as error:
        return str(error)


def write_retry(policy: RetryPolicy | None) -> str | None:
    """Write a retry policy as JSON."""
    return None if policy is None else _written(policy)


@lru_cache(maxsize=1024)
def _written(policy: RetryPolicy) -> str:
    return msgspec.json.encode(write_policy(policy)).decode()
