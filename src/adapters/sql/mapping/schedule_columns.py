"""Groups of a schedule's columns, read once for all rows that share their values.

People write them by hand: a column is read as a field of a jobs file is. NULL and an empty text say
nothing; an impossible value is reported as a fault, and the default is used.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import msgspec

from cronhare.domain.cron import Fold, Gap, names_matter
from cronhare.domain.reading import Fault, Invalid, Reads, read_table, text_of, whole_number
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.retries.retry_policy_parser import (
    LONGEST_POLICY,
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
    MisfirePolicy,
    OverlapPolicy,
)
from cronhare.domain.schedules.topic import NoListener
from cronhare.domain.texts.durations import LONGEST
from cronhare.domain.texts.echo import echo
from cronhare.domain.topology import MAIN_QUEUE

from ..schema.types import milliseconds
from .bounded_cache import POLICIES_CACHED, RUN_OPTIONS_CACHED, TIMES_CACHED, cached

#: Replaces a time that cannot be read.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MILLISECOND: Final = timedelta(milliseconds=1)
SPANS_MS: Final = range(LONGEST // _MILLISECOND + 1)
INTERVALS_MS: Final = range(every.SHORTEST // _MILLISECOND, every.LONGEST // _MILLISECOND + 1)


class ColumnGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a schedule, as its draft has them and as the schedule itself; with their faults.

    If *named*, they depend on its name: see `read_named_times`.
    """

    draft: Mapping[str, Any]
    schedule: Mapping[str, Any]
    faults: tuple[Fault, ...]
    named: bool = False


def given(columns: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Give the columns of a row that say something, by their names."""
    named = zip(columns, values, strict=True)
    return {column: value for column, value in named if value is not None and value != ""}


def decoded(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def _span(number: int) -> timedelta:
    return number * _MILLISECOND


def _moment(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    raise ValueError(f"{echo(value)} is not a time")


def _flag(value: object) -> bool:
    if value in (0, 1):
        return bool(value)
    raise ValueError(f"{echo(value)} is not 0 (off) or 1 (on)")


def _policy(text: str) -> RetryPolicy:
    policy = read_retry(text)
    if isinstance(policy, str):
        raise ValueError(policy)  # noqa: TRY004 - it says what is wrong
    return policy


def _conditions(text: str) -> Conditions | None:
    said = decoded(text)
    if not isinstance(said, dict):
        raise ValueError(f"{echo(said)} is not a table")  # noqa: TRY004 - a fault of the row
    conditions, faults = read_conditions(said)
    if faults:
        raise Invalid(faults)
    return conditions


# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    _Span = timedelta
    _Interval = timedelta
    _Policy = RetryPolicy
    _Conditions = Conditions
else:
    _Span = Annotated[int, whole_number(SPANS_MS), Reads(_span)]
    _Interval = Annotated[int, whole_number(INTERVALS_MS), Reads(_span)]
    _Policy = Annotated[str, text_of(LONGEST_POLICY), Reads(_policy)]
    _Conditions = Annotated[str, text_of(LONGEST_CONDITIONS), Reads(_conditions)]
_Moment = Annotated[Any, Reads(_moment)]
_Flag = Annotated[Any, Reads(_flag)]


#: What the fields of a draft are called as columns, where that is not the same.
_COLUMNS: Final = {
    "every": "every_ms",
    "gap": "gap_policy",
    "fold": "fold_policy",
    "misfire_window": "misfire_window_ms",
    "overlap": "overlap_policy",
    "timeout": "timeout_ms",
    "jitter": "jitter_ms",
}


class _Times(
    msgspec.Struct, frozen=True, kw_only=True, rename=_COLUMNS, forbid_unknown_fields=True
):
    schedule: Annotated[str, text_of(LONGEST_EXPRESSION)] | None = None
    date_time: _Moment = None
    every: _Interval | None = None
    timezone: Annotated[str, text_of(LONGEST_ZONE)] = DEFAULT_ZONE
    gap: Gap = Gap.AFTER
    fold: Fold = Fold.FIRST
    starts_at: _Moment = None
    ends_at: _Moment = None


class _RunOptions(
    msgspec.Struct, frozen=True, kw_only=True, rename=_COLUMNS, forbid_unknown_fields=True
):
    status: _Flag = False
    retry: _Policy | None = None
    misfire_policy: MisfirePolicy = DEFAULT_MISFIRE.policy
    misfire_window: _Span = DEFAULT_MISFIRE.window
    misfire_cap: Annotated[int, whole_number(CAPS)] = DEFAULT_MISFIRE.cap
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    concurrency_key: Annotated[str, text_of(LONGEST_NAME)] | None = None
    concurrency_limit: Annotated[int, whole_number(LIMITS)] | None = None
    timeout: _Span | None = None
    jitter: _Span = timedelta(0)
    queue: str = MAIN_QUEUE
    stay_alive: _Flag = False
    conditions: _Conditions | None = None
    no_listener: NoListener = NoListener.COMPLETE


#: The columns that say when, and those that say how a schedule is run.
TIME_COLUMNS: Final = _Times.__struct_encode_fields__
RUN_OPTION_COLUMNS: Final = _RunOptions.__struct_encode_fields__


def column_values(draft: ScheduleDraft) -> dict[str, object]:
    """Write a draft as `TIME_COLUMNS` and `RUN_OPTION_COLUMNS`."""
    fields = (*_Times.__struct_fields__, *_RunOptions.__struct_fields__)
    said = {field: getattr(draft, field, None) for field in fields}
    said |= {f"misfire_{part}": value for part, value in attrs.asdict(draft.misfire).items()}
    if draft.concurrency is not None:
        held = msgspec.structs.asdict(draft.concurrency)
        said |= {f"concurrency_{part}": value for part, value in held.items()}
    return {_COLUMNS.get(field, field): _written(value) for field, value in said.items()}


def _written(value: object) -> object:
    match value:
        case StrEnum():
            return value.value
        case timedelta():
            return milliseconds(value)
        case RetryPolicy():
            return write_retry(value)
        case Conditions():
            return msgspec.json.encode(write_conditions(value)).decode()
    return value


@cached(entries=TIMES_CACHED)
def read_times(values: tuple[Any, ...]) -> ColumnGroup:
    """Read `TIME_COLUMNS`, in their order."""
    return _read_times(values, None)


@cached(entries=TIMES_CACHED)
def read_named_times(named: tuple[Any, ...]) -> ColumnGroup:
    """Read `TIME_COLUMNS` behind the name of the schedule, of which `H` is made."""
    name, *values = named
    return _read_times(tuple(values), name)


def _read_times(values: tuple[Any, ...], name: str | None) -> ColumnGroup:
    text, others, faults = values[0] or None, _read_other_times(values[1:]), list[Fault]()
    if text is not None and not (isinstance(text, str) and len(text) <= LONGEST_EXPRESSION):
        text = read_table(_Times, {"schedule": text}, faults, quote=echo).schedule
    if name is None and text is not None and names_matter(text):
        return ColumnGroup(draft={}, schedule={}, faults=(), named=True)
    said: dict[str, Any] = {"schedule": text, **others.draft}
    if text is None:
        said |= in_effect(text, said["gap"], said["fold"])
    timing, wrong = validate_times(name=name, **said)
    return ColumnGroup(
        draft=said,
        schedule={**others.schedule, "timing": timing},
        faults=(*faults, *others.faults, *wrong),
    )


@cached(entries=TIMES_CACHED)
def _read_other_times(values: tuple[Any, ...]) -> ColumnGroup:
    """Read what `TIME_COLUMNS` have beside the cron text: nearly all rows agree in it."""
    faults = list[Fault]()
    row = read_table(_Times, given(TIME_COLUMNS[1:], values), faults, quote=echo)
    said = msgspec.structs.asdict(row)
    del said["schedule"]
    return ColumnGroup(draft=said, schedule=kept_fields(said), faults=tuple(faults))


@cached(entries=RUN_OPTIONS_CACHED)
def read_run_options(values: tuple[Any, ...]) -> ColumnGroup:
    """Read `RUN_OPTION_COLUMNS`, in their order."""
    faults = list[Fault]()
    row = read_table(_RunOptions, given(RUN_OPTION_COLUMNS, values), faults, quote=echo)
    said = msgspec.structs.asdict(row)
    said["misfire"] = Misfire(
        policy=said.pop("misfire_policy"),
        window=said.pop("misfire_window"),
        cap=said.pop("misfire_cap"),
    )
    key, limit = said.pop("concurrency_key"), said.pop("concurrency_limit")
    said["concurrency"] = concurrency = _concurrency(key, limit, faults)
    faults += validate_run_options(timeout=row.timeout, queue=row.queue, concurrency=concurrency)
    return ColumnGroup(draft=said, schedule=kept_fields(said), faults=tuple(faults))


def _concurrency(key: str | None, limit: int | None, faults: list[Fault]) -> Concurrency | None:
    """Give a key and its limit; a row has both or neither."""
    if key is not None and limit is not None:
        return Concurrency(key=key, limit=limit)
    tried = {fault.field for fault in faults}
    if key is not None and "concurrency_limit" not in tried:
        faults.append(Fault("concurrency_limit", "is missing beside a concurrency_key"))
    if limit is not None and "concurrency_key" not in tried:
        faults.append(Fault("concurrency_key", "is missing beside a concurrency_limit"))
    return None


@cached(entries=POLICIES_CACHED)
def read_retry(text: str) -> RetryPolicy | str:
    """Read a retry policy, or say what is wrong with it."""
    try:
        return read_policy(decoded(text), default=RetryPolicy())
    except ValueError as error:  # of JSON, or of a policy
        return str(error)


@lru_cache(maxsize=1024)
def write_retry(policy: RetryPolicy | None) -> str | None:
    """Write a retry policy as JSON."""
    return None if policy is None else msgspec.json.encode(write_policy(policy)).decode()
