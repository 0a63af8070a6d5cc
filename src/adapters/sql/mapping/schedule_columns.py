"""Groups of a schedule's columns, read once for all rows that share their values.

People write them by hand. An impossible value is reported as a fault, and the default is used.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from cronhare.domain.cron import Fold, Gap, names_matter
from cronhare.domain.reading import Fault
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.retries.retry_policy_parser import (
    LONGEST_POLICY,
    RetryPolicyInvalid,
    read_policy,
    write_policy,
)
from cronhare.domain.schedules import every
from cronhare.domain.schedules.concurrency import LIMITS, Concurrency
from cronhare.domain.schedules.conditions import (
    LONGEST_CONDITIONS,
    Conditions,
    read_conditions,
    write_conditions,
)
from cronhare.domain.schedules.draft import (
    ScheduleDraft,
    in_effect,
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
    LONGEST_NAME,
    LONGEST_ZONE,
    Misfire,
)
from cronhare.domain.schedules.topic import NoListener
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

INTERVALS_MS: Final = range(
    every.SHORTEST // timedelta(milliseconds=1), every.LONGEST // timedelta(milliseconds=1) + 1
)

#: How each column that says when is written from a draft.
_TIMES: Final[Mapping[str, Callable[[ScheduleDraft], object]]] = {
    "schedule": lambda draft: draft.schedule,
    "date_time": lambda draft: draft.date_time,
    "every_ms": lambda draft: milliseconds(draft.every),
    "timezone": lambda draft: draft.timezone,
    "gap_policy": lambda draft: draft.gap.value,
    "fold_policy": lambda draft: draft.fold.value,
    "starts_at": lambda draft: draft.starts_at,
    "ends_at": lambda draft: draft.ends_at,
}
#: The columns that say when.
TIME_COLUMNS: Final = tuple(_TIMES)

#: How each column of the run options is written from a draft.
_RUN_OPTIONS: Final[Mapping[str, Callable[[ScheduleDraft], object]]] = {
    "status": lambda draft: draft.status,
    "retry": lambda draft: write_retry(draft.retry),
    "misfire_policy": lambda draft: draft.misfire.policy.value,
    "misfire_window_ms": lambda draft: milliseconds(draft.misfire.window),
    "misfire_cap": lambda draft: draft.misfire.cap,
    "overlap_policy": lambda draft: draft.overlap.value,
    "concurrency_key": lambda draft: draft.concurrency and draft.concurrency.key,
    "concurrency_limit": lambda draft: draft.concurrency and draft.concurrency.limit,
    "timeout_ms": lambda draft: milliseconds(draft.timeout),
    "jitter_ms": lambda draft: milliseconds(draft.jitter),
    "queue": lambda draft: draft.queue,
    "stay_alive": lambda draft: draft.stay_alive,
    "conditions": lambda draft: write_conditions_text(draft.conditions),
    "no_listener": lambda draft: draft.no_listener.value,
}
_WRITERS: Final = {**_TIMES, **_RUN_OPTIONS}
#: The columns that say how a schedule is run.
RUN_OPTION_COLUMNS: Final = tuple(_RUN_OPTIONS)


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a schedule, as its draft has them and as the schedule itself; with their faults."""

    draft: Mapping[str, Any]
    schedule: Mapping[str, Any]
    faults: tuple[Fault, ...]


class ScheduleTimes(_Fields, frozen=True, kw_only=True):
    """When a schedule is due. If *named*, that depends on its name: see `read_named_times`."""

    named: bool = False


class RunOptions(_Fields, frozen=True, kw_only=True):
    """How a schedule is run."""


def column_values(draft: ScheduleDraft) -> dict[str, object]:
    """Write a draft as `TIME_COLUMNS` and `RUN_OPTION_COLUMNS`."""
    return {column: write(draft) for column, write in _WRITERS.items()}


@cached(entries=TIMES_CACHED)
def read_times(values: tuple[Any, ...]) -> ScheduleTimes:
    """Read `TIME_COLUMNS`, in their order."""
    return _read_times(values, None)


@cached(entries=TIMES_CACHED)
def read_named_times(named: tuple[Any, ...]) -> ScheduleTimes:
    """Read `TIME_COLUMNS` behind the name of the schedule, of which `H` is made."""
    name, *values = named
    return _read_times(tuple(values), name)


def _read_times(values: tuple[Any, ...], name: str | None) -> ScheduleTimes:
    text, faults = _read_cron_text(values[0])
    if name is None and text is not None and names_matter(text):
        return ScheduleTimes(draft={}, schedule={}, faults=(), named=True)
    others = _read_other_times(values[1:])
    said: dict[str, Any] = {"schedule": text, **others.draft}
    if text is None:
        said |= in_effect(text, said["gap"], said["fold"])
    timing, wrong = validate_times(name=name, **said)
    return ScheduleTimes(
        draft=said,
        schedule={**others.schedule, "timing": timing},
        faults=(*faults, *others.faults, *wrong),
    )


def _read_cron_text(value: object) -> tuple[str | None, Sequence[Fault]]:
    # Forms that people fill in leave an empty text where nothing is meant.
    if isinstance(value, str) and len(value) <= LONGEST_EXPRESSION:  # nearly always
        return value or None, ()
    row = _Values(TIME_COLUMNS[:1], (value,))
    return row.text("schedule", LONGEST_EXPRESSION) or None, row.faults


@cached(entries=TIMES_CACHED)
def _read_other_times(values: tuple[Any, ...]) -> _Fields:
    """Read what `TIME_COLUMNS` have beside the cron text: nearly all rows agree in it."""
    row = _Values(TIME_COLUMNS[1:], values)
    said: dict[str, Any] = {
        "every": row.span("every_ms", None, INTERVALS_MS),
        "timezone": row.text("timezone", LONGEST_ZONE) or DEFAULT_ZONE,
        "gap": row.one_of("gap_policy", Gap.AFTER),
        "fold": row.one_of("fold_policy", Fold.FIRST),
        **{column: row.moment(column) for column in ("date_time", "starts_at", "ends_at")},
    }
    return _Fields(draft=said, schedule=kept_fields(said), faults=tuple(row.faults))


@cached(entries=RUN_OPTIONS_CACHED)
def read_run_options(values: tuple[Any, ...]) -> RunOptions:
    """Read `RUN_OPTION_COLUMNS`, in their order."""
    row = _Values(RUN_OPTION_COLUMNS, values)
    timeout = None if row.values["timeout_ms"] is None else row.span("timeout_ms", timedelta(0))
    queue = row.take("queue", str, "") or MAIN_QUEUE
    concurrency = row.concurrency()
    said = {
        "status": row.flag("status"),
        "retry": row.retry(),
        "misfire": Misfire(
            policy=row.one_of("misfire_policy", DEFAULT_MISFIRE.policy),
            window=row.span("misfire_window_ms", DEFAULT_MISFIRE.window),
            cap=row.number("misfire_cap", CAPS, DEFAULT_MISFIRE.cap),
        ),
        "overlap": row.one_of("overlap_policy", DEFAULT_OVERLAP),
        "concurrency": concurrency,
        "timeout": timeout,
        "jitter": row.span("jitter_ms", timedelta(0)),
        "queue": queue,
        "stay_alive": row.flag("stay_alive"),
        "conditions": row.conditions(),
        "no_listener": row.one_of("no_listener", NoListener.COMPLETE),
    }
    return RunOptions(
        draft=said,
        schedule=kept_fields(said),
        faults=(
            *row.faults,
            *validate_run_options(timeout=timeout, queue=queue, concurrency=concurrency),
        ),
    )


_A: dict[type[Any], str] = {str: "text", int: "a whole number", datetime: "a time"}


class _Values:
    """Values of a group of columns; a faulty one is noted in *faults*, and read as a default."""

    def __init__(self, columns: Sequence[str], values: tuple[Any, ...]) -> None:
        self.faults: list[Fault] = []
        self.values = dict(zip(columns, values, strict=True))

    def take(self, column: str, kind: type[T], default: D) -> T | D:
        value = self.values[column]
        if value is None or isinstance(value, kind):
            return default if value is None else value
        return self._fault(column, f"{echo(value)} is not {_A[kind]}", default)

    def moment(self, column: str) -> datetime | None:
        return None if self.values[column] is None else self.take(column, datetime, LONG_AGO)

    def text(self, column: str, longest: int) -> str:
        text = self.take(column, str, "")
        if len(text) <= longest:
            return text
        return self._fault(column, f"{len(text):,} letters, {longest:,} are allowed", "")

    def number(self, column: str, allowed: range, default: D) -> int | D:
        number = self.take(column, int, default)
        if number is default or number in allowed:
            return number
        wanted = f"{allowed[0]:,}-{allowed[-1]:,}"
        return self._fault(column, f"{echo(number)} is not {wanted}", default)

    def span(self, column: str, default: D, allowed: range = SPANS_MS) -> timedelta | D:
        milliseconds = self.number(column, allowed, None)
        return default if milliseconds is None else timedelta(milliseconds=milliseconds)

    def one_of(self, column: str, default: E) -> E:
        value, kinds = self.values[column], type(default)
        if value is None or value == default:  # nearly always
            return default
        for kind in kinds:
            if kind.value == value:
                return kind
        return self._fault(column, f"{echo(value)} is none of {', '.join(kinds)}", default)

    def flag(self, column: str) -> bool:
        """Read what is on or off; NULL is off."""
        value = self.values[column]
        if value is None or value in (0, 1):
            return bool(value)
        return self._fault(column, f"{echo(value)} is not 0 (off) or 1 (on)", default=False)

    def retry(self) -> RetryPolicy | None:
        text = self.text("retry", LONGEST_POLICY)
        policy = read_retry(text) if text else None
        return self._fault("retry", policy, None) if isinstance(policy, str) else policy

    def conditions(self) -> Conditions | None:
        text = self.text("conditions", LONGEST_CONDITIONS)
        if not text:
            return None
        try:
            given = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return self._fault("conditions", f"not JSON: {error}", None)
        if not isinstance(given, dict):
            return self._fault("conditions", f"{echo(given)} is not a table", None)
        conditions, faults = read_conditions(given)
        self.faults += [Fault(f"conditions.{one.field}", one.problem) for one in faults]
        return conditions

    def concurrency(self) -> Concurrency | None:
        """Read a key and its limit; a row has both or neither."""
        key = self.text("concurrency_key", LONGEST_NAME)
        limit = self.number("concurrency_limit", LIMITS, None)
        if key and limit is not None:
            return Concurrency(key=key, limit=limit)
        if key and self.values["concurrency_limit"] is None:
            self._fault("concurrency_limit", "is missing beside a concurrency_key", None)
        elif limit is not None:
            self._fault("concurrency_key", "is missing beside a concurrency_limit", None)
        return None

    def _fault(self, column: str, what: str, default: D) -> D:
        self.faults.append(Fault(column, what))
        return default


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


def write_conditions_text(conditions: Conditions | None) -> str | None:
    """Write conditions as JSON."""
    if conditions is None:
        return None
    return msgspec.json.encode(write_conditions(conditions)).decode()


@lru_cache(maxsize=1024)
def _written(policy: RetryPolicy) -> str:
    return msgspec.json.encode(write_policy(policy)).decode()
