"""Columns of `Scheduler`, which people edit by hand: read tolerantly, all faults at once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import msgspec
from msgspec import Meta

from cronhare.domain.cron import Fold, Gap, names_matter
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.reading import Fault, Reads, read_table, text_of, whole_number
from cronhare.domain.retries.policy import (
    LONGEST_POLICY,
    RetryPolicy,
    RetryPolicyInvalid,
    read_policy,
    write_policy,
)
from cronhare.domain.schedules.catalog import NoListener, fault_of_topic, ref_of_topic
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
    LIMITS,
    LONGEST_EXPRESSION,
    LONGEST_INTERVAL,
    LONGEST_NAME,
    LONGEST_ZONE,
    SHORTEST_INTERVAL,
    Concurrency,
    Misfire,
    MisfirePolicy,
    OverlapPolicy,
)
from cronhare.domain.schedules.task import COLUMN_OF_TYPE, SYSTEM, TaskRef, fault_of_own_type
from cronhare.domain.texts.moments import LONGEST_DURATION
from cronhare.domain.texts.printable import echo
from cronhare.domain.topology import MAIN_QUEUE

from .types import milliseconds

#: Nearly all rows agree in their columns. *typed*, lest 1 be read as True.
_cached: Final = lru_cache(maxsize=4096, typed=True)

#: Replaces a time that cannot be read.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MILLISECOND: Final = timedelta(milliseconds=1)
SPANS_MS: Final = range(LONGEST_DURATION // _MILLISECOND + 1)
INTERVALS_MS: Final = range(SHORTEST_INTERVAL // _MILLISECOND, LONGEST_INTERVAL // _MILLISECOND + 1)


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


@_cached
def read_retry(text: str) -> RetryPolicy:
    try:
        return read_policy(decoded(text), default=RetryPolicy())
    except RetryPolicyInvalid as error:
        raise ValueError(str(error)) from error  # with its code


def _conditions(text: str) -> Conditions | None:
    return read_conditions(decoded(text))


# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    _Span = timedelta
    _Interval = timedelta
    _Policy = RetryPolicy
    _Conditions = Conditions
else:
    _Span = Annotated[int, whole_number(SPANS_MS), Reads(_span)]
    _Interval = Annotated[int, whole_number(INTERVALS_MS), Reads(_span)]
    _Policy = Annotated[str, text_of(LONGEST_POLICY), Reads(read_retry)]
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


@_cached
def read_times(values: tuple[Any, ...]) -> ColumnGroup:
    return _read_times(values, None)


@_cached
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


@_cached
def _read_other_times(values: tuple[Any, ...]) -> ColumnGroup:
    """Read what `TIME_COLUMNS` have beside the cron text: nearly all rows agree in it."""
    faults = list[Fault]()
    row = read_table(_Times, given(TIME_COLUMNS[1:], values), faults, quote=echo)
    said = msgspec.structs.asdict(row)
    del said["schedule"]
    return ColumnGroup(draft=said, schedule=kept_fields(said), faults=tuple(faults))


@_cached
def read_run_options(values: tuple[Any, ...]) -> ColumnGroup:
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
    if key is not None and limit is not None:
        return Concurrency(key=key, limit=limit)
    tried = {fault.field for fault in faults}
    if key is not None and "concurrency_limit" not in tried:
        faults.append(Fault("concurrency_limit", "is missing beside a concurrency_key"))
    if limit is not None and "concurrency_key" not in tried:
        faults.append(Fault("concurrency_key", "is missing beside a concurrency_limit"))
    return None


@lru_cache(maxsize=1024)
def write_retry(policy: RetryPolicy | None) -> str | None:
    return None if policy is None else msgspec.json.encode(write_policy(policy)).decode()


#: The task of a schedule whose row names none.
NOWHERE: Final = TaskRef("report", 0)


class NamedTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says of its task: its number always, its source and name where it has them.

    Or the *topic* that it has instead, whose number it is then.
    """

    ref: TaskRef
    source: str | None
    name: str | None
    topic: str | None = None
    faults: tuple[Fault, ...] = ()


def task_values(draft: ScheduleDraft) -> dict[str, object]:
    """Write a draft's task as `NUMBER_COLUMNS` and topic."""
    ref, values = draft.task, dict[str, object](dict.fromkeys(NUMBER_COLUMNS), topic=draft.topic)
    if draft.topic is not None:
        return values
    if (column := COLUMN_OF_TYPE.get(ref.type)) is not None:
        return {**values, column: ref.id}
    return {**values, "task_type": ref.type, "task_id": ref.id}


def _own_type(name: str) -> str:
    """Read the type beside a `task_id`; the types that have a column of their own stay there."""
    problem = fault_of_own_type(name)
    if problem is None and name in COLUMN_OF_TYPE:
        problem = f"{name} has a column of its own, {COLUMN_OF_TYPE[name]}"
    if problem is not None:
        raise ValueError(f"{echo(name)}: {problem}")
    return name


def _topic(name: str) -> str:
    if (problem := fault_of_topic(name)) is not None:
        raise ValueError(f"{echo(name)}: {problem}")
    return name


_Number = Annotated[int, Meta(ge=0, le=LARGEST_ID, description="a task's number")]
#: Each execution keeps them, in columns with a bound.
_Name = Annotated[str, text_of(LONGEST_NAME)]


class _Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: _Name | None = None
    task_name: _Name | None = None
    report_id: _Number | None = None
    worker_id: _Number | None = None
    reminder_id: _Number | None = None
    event_id: _Number | None = None
    system_id: _Number | None = None
    task_type: Annotated[str, Reads(_own_type)] | None = None
    task_id: _Number | None = None
    topic: Annotated[str, Reads(_topic)] | None = None


#: The columns that name the task, and those of them that number it.
TASK_COLUMNS: Final = _Task.__struct_fields__
NUMBER_COLUMNS: Final = TASK_COLUMNS[2:-1]


@_cached
def read_task(values: tuple[Any, ...]) -> NamedTask:
    faults, said = list[Fault](), given(TASK_COLUMNS, values)
    row = read_table(_Task, said, faults, quote=echo)
    # A faulty name stays one of its own: its row must not pass for that of another source.
    source, name = (
        getattr(row, column) or (echo(said[column]) if column in said else None)
        for column in ("source", "task_name")
    )
    if name is not None and source is None:
        faults.append(Fault("task_name", "names a task of no source: set source, or clear both"))
    if "topic" not in said:
        ref = _number(row, said, faults)
    else:
        ref = NOWHERE if row.topic is None else ref_of_topic(row.topic)
        if said.keys() - {"source", "topic"}:
            faults.append(Fault("topic", "a row has a topic or names a task, not both"))
    return NamedTask(ref=ref, source=source, name=name, topic=row.topic, faults=tuple(faults))


def _number(row: _Task, said: Collection[str], faults: list[Fault]) -> TaskRef:
    ways: list[tuple[str | None, int | None]] = [
        (kind, getattr(row, column)) for kind, column in COLUMN_OF_TYPE.items() if column in said
    ]
    if "task_type" in said or "task_id" in said:
        ways.append((row.task_type, row.task_id))
        for column, other in (("task_type", "task_id"), ("task_id", "task_type")):
            if column not in said:
                faults.append(Fault(column, f"is missing beside a {other}"))
    if len(ways) != 1:
        columns = ", ".join(column for kind, column in COLUMN_OF_TYPE.items() if kind != SYSTEM)
        faults.append(Fault("task", f"one of {columns} is to be set, not {len(ways)} of them"))
        return NOWHERE
    [(kind, number)] = ways
    return NOWHERE if kind is None or number is None else TaskRef(kind, number)
