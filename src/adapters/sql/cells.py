"""What groups of a row's columns say: often the same, and understood once for all that share them.

People write them by hand. What cannot be is named, and stands for what is meant when nothing is
said.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from cronhare.domain.draft import Fault, judge_manner, judge_times
from cronhare.domain.policies import RetryPolicyInvalid, read_policy
from cronhare.domain.retry import RetryPolicy
from cronhare.domain.schedule import (
    DEFAULT_CAP,
    DEFAULT_WINDOW,
    ByHand,
    Misfire,
    MisfirePolicy,
    Once,
    OverlapPolicy,
    Recurring,
)
from cronhare.domain.topology import MAIN_QUEUE

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)

#: Stands for a time that cannot be read.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: Up to a hundred years: beyond them, times could not be reckoned with.
_SPANS_MS: Final = range(timedelta(days=36_525) // timedelta(milliseconds=1) + 1)

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


@lru_cache(maxsize=4096)
def read_times(values: tuple[Any, ...]) -> Times:
    """Read the columns of `TIMES`, in their order."""
    schedule, date_time, timezone, starts_at, ends_at = values
    faults: list[Fault] = []

    def moment(field: str, value: object) -> datetime | None:
        return None if value is None else _take(field, value, datetime, LONG_AGO, faults)

    said: dict[str, Any] = {
        # Forms that people fill in leave an empty text where nothing is meant.
        "schedule": _take("schedule", schedule, str, "", faults) or None,
        "date_time": moment("date_time", date_time),
        "timezone": _take("timezone", timezone, str, "", faults) or "UTC",
        "starts_at": moment("starts_at", starts_at),
        "ends_at": moment("ends_at", ends_at),
    }
    timing, wrong = judge_times(**said)
    return Times(**said, timing=timing, faults=(*faults, *wrong))


@lru_cache(maxsize=1024)
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
        if milliseconds not in _SPANS_MS:
            faults.append(Fault(field, f"{milliseconds} is not 0-{_SPANS_MS.stop - 1:,}"))
            return default
        return timedelta(milliseconds=milliseconds)

    timeout = None if row["timeout_ms"] is None else span("timeout_ms", timedelta(0))
    queue = take("queue", str, "") or MAIN_QUEUE
    return Manner(
        status=bool(row["status"]),
        retry=_retry(take("retry", str, ""), faults),
        misfire=Misfire(
            policy=one_of("misfire_policy", MisfirePolicy.ONCE),
            window=span("misfire_window_ms", DEFAULT_WINDOW),
            cap=take("misfire_cap", int, DEFAULT_CAP),
        ),
        overlap=one_of("overlap_policy", OverlapPolicy.ALLOW),
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
    faults.append(Fault(field, f"{value!r} is not {_A[kind]}"))
    return default


def _one_of(field: str, value: object, kinds: type[E], default: E, faults: list[Fault]) -> E:
    if value is None:
        return default
    for kind in kinds:
        if kind.value == value:
            return kind
    faults.append(Fault(field, f"{value!r} is none of {', '.join(kinds)}"))
    return default


def _retry(text: str, faults: list[Fault]) -> RetryPolicy | None:
    if not text:
        return None
    try:
        return read_policy(msgspec.json.decode(text), default=RetryPolicy())
    except msgspec.DecodeError as error:
        faults.append(Fault("retry", f"not JSON: {error}"))
    except RetryPolicyInvalid as error:
        faults.append(Fault("retry", str(error)))
    return None
