"""Rows of the users' table, understood or found broken. People write them by hand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

import attrs
import msgspec
from sqlalchemy import Row, type_coerce
from sqlalchemy.types import NullType

from cronhare.domain.draft import Fault, ScheduleDraft, ScheduleInvalid, understand
from cronhare.domain.params import fault_of_params
from cronhare.domain.policies import RetryPolicyInvalid, read_policy
from cronhare.domain.retry import RetryPolicy
from cronhare.domain.schedule import (
    DEFAULT_CAP,
    DEFAULT_WINDOW,
    BrokenSchedule,
    Misfire,
    MisfirePolicy,
    OverlapPolicy,
    Schedule,
)
from cronhare.domain.task import TaskRef
from cronhare.domain.topology import MAIN_QUEUE

from .rows import answer_to, policy_text
from .tables import schedulers
from .types import milliseconds

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)

_Cells = dict[str, Any]

#: The column that names the task, by the task's type; exactly one of them is set.
COLUMN_OF_TYPE = {
    "report": "report_id",
    "worker": "worker_id",
    "reminder": "reminder_id",
    "event": "event_id",
    "system": "system_id",
}

#: A row's updated_at exactly as it is: a plan keeps it, and compares no clocks by it.
STAMP = type_coerce(schedulers.c.updated_at, NullType())

#: The task and the times of a schedule whose row cannot be read.
_NOWHERE = TaskRef("report", 0)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

#: Up to a hundred years: beyond them, times could not be reckoned with.
_SPANS_MS = range(timedelta(days=36_525) // timedelta(milliseconds=1) + 1)

#: The columns that say when: often the same, and understood once for all that share them.
_TIMES = ("schedule", "date_time", "timezone", "starts_at", "ends_at")

#: The columns that say how: nearly always the same, whatever the times are.
_MANNERS = (
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


#: What is read of a row, and what each row begins with that is read here. Not all columns, and by
#: their places: most of a busy minute is spent on reading.
READ = tuple(
    schedulers.c[name]
    for name in (
        "id", "name", "params", "updated_at", *COLUMN_OF_TYPE.values(), *_TIMES, *_MANNERS
    )
)  # fmt: skip
_IN_TASK = slice(4, 4 + len(COLUMN_OF_TYPE))
_IN_TIMES = slice(_IN_TASK.stop, _IN_TASK.stop + len(_TIMES))
_IN_MANNERS = slice(_IN_TIMES.stop, len(READ))


@attrs.frozen
class _Understood:
    """What rows with equal times and manners have in common; no schedule if they are broken."""

    draft: ScheduleDraft
    schedule: Schedule | None
    faults: tuple[Fault, ...]


def draft_of(row: Row[Any]) -> tuple[ScheduleDraft | None, str | None]:
    """Read a row as a draft, or say what is wrong with it."""
    shared, task, params, faults = _read(row)
    if faults:
        return None, _say(faults)
    name = answer_to(row.name, row.id)
    return attrs.evolve(
        shared.draft, name=name, task=task, params=params, description=row.description
    ), None


def schedule_of(row: Row[Any]) -> Schedule | BrokenSchedule:
    """Read a row as a schedule."""
    shared, task, params, faults = _read(row)
    name = answer_to(row.name, row.id)
    if faults or shared.schedule is None:
        changed_at = moment_or_long_ago(row.updated_at)
        return BrokenSchedule(id=row.id, name=name, problem=_say(faults), changed_at=changed_at)
    common = shared.schedule
    return Schedule(  # by hand: attrs.evolve takes four times as long, for every due schedule
        id=row.id,
        name=name,
        task=task,
        timing=common.timing,
        changed_at=row.updated_at,
        params=params,
        enabled=common.enabled,
        retry=common.retry,
        misfire=common.misfire,
        overlap=common.overlap,
        timeout=common.timeout,
        jitter=common.jitter,
        starts_at=common.starts_at,
        ends_at=common.ends_at,
        queue=common.queue,
    )


def row_values(draft: ScheduleDraft) -> dict[str, Any]:
    """Write a draft as the columns of its row."""
    column = COLUMN_OF_TYPE.get(draft.task.type)
    if column is None:
        known = ", ".join(COLUMN_OF_TYPE)
        raise ValueError(f"{draft.name}: a schedule runs a task of one of these types: {known}")
    return {
        **dict.fromkeys(COLUMN_OF_TYPE.values()),
        column: draft.task.id,
        "name": draft.name,
        "schedule": draft.schedule,
        "date_time": draft.date_time,
        "timezone": draft.timezone,
        "params": draft.params,
        "status": draft.status,
        "description": draft.description,
        "retry": policy_text(draft.retry),
        "misfire_policy": draft.misfire.policy.value,
        "misfire_window_ms": milliseconds(draft.misfire.window),
        "misfire_cap": draft.misfire.cap,
        "overlap_policy": draft.overlap.value,
        "timeout_ms": milliseconds(draft.timeout),
        "jitter_ms": milliseconds(draft.jitter),
        "starts_at": draft.starts_at,
        "ends_at": draft.ends_at,
        "queue": draft.queue,
    }


def moment_or_long_ago(value: object) -> datetime:
    """Take a moment that may have been spoilt by hand."""
    return value if isinstance(value, datetime) else _LONG_AGO


def _read(row: Row[Any]) -> tuple[_Understood, TaskRef, str, tuple[Fault, ...]]:
    params, updated_at = row.params, row.updated_at
    shared = _understood(row[_IN_TIMES], row[_IN_MANNERS])
    faults = list(shared.faults)
    task = _task(row[_IN_TASK], faults)
    params = _params(params, faults)
    if not isinstance(updated_at, datetime):
        faults.append(Fault("updated_at", f"{updated_at!r} is no time"))
    return shared, task, params, tuple(faults)


def _say(faults: tuple[Fault, ...]) -> str:
    return "; ".join(map(str, faults))


def _task(ids: Sequence[Any], faults: list[Fault]) -> TaskRef:
    named = [(kind, id_) for kind, id_ in zip(COLUMN_OF_TYPE, ids, strict=True) if id_ is not None]
    if len(named) != 1:
        columns = ", ".join(column for kind, column in COLUMN_OF_TYPE.items() if kind != "system")
        faults.append(Fault("task", f"one of {columns} is to be set, not {len(named)} of them"))
        return _NOWHERE
    [(kind, id_)] = named
    if not isinstance(id_, int) or id_ < 0:
        faults.append(Fault(COLUMN_OF_TYPE[kind], f"{id_!r} is no task's number"))
        return _NOWHERE
    return TaskRef(kind, id_)


def _params(value: object, faults: list[Fault]) -> str:
    if value is None:
        return "{}"
    try:
        if isinstance(value, str):
            msgspec.json.decode(value)
            if (too_large := fault_of_params(value)) is not None:
                faults.append(Fault("params", too_large))
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        faults.append(Fault("params", f"not JSON: {error}"))
    else:
        faults.append(Fault("params", f"{value!r} is not JSON text"))
    return "{}"


@lru_cache(maxsize=4096)
def _understood(times: tuple[Any, ...], manners: tuple[Any, ...]) -> _Understood:
    manner, manner_faults = _manner(manners)
    faults = list(manner_faults)
    row = dict(zip(_TIMES, times, strict=True))

    def moment(field: str) -> datetime | None:
        return None if row[field] is None else _take(row, field, datetime, _LONG_AGO, faults)

    draft = ScheduleDraft(
        name="",
        task=_NOWHERE,
        # Forms that people fill in leave an empty text where nothing is meant.
        schedule=_take(row, "schedule", str, "", faults) or None,
        date_time=moment("date_time"),
        timezone=_take(row, "timezone", str, "", faults) or "UTC",
        starts_at=moment("starts_at"),
        ends_at=moment("ends_at"),
        **manner,
    )
    schedule = None
    try:
        schedule = understand(draft, id=0, changed_at=_LONG_AGO)
    except ScheduleInvalid as error:
        faults.extend(error.faults)
    return _Understood(draft, None if faults else schedule, tuple(faults))


@lru_cache(maxsize=1024)
def _manner(values: tuple[Any, ...]) -> tuple[_Cells, tuple[Fault, ...]]:
    """Read what a draft says of the manner: its fields by name, and what is wrong."""
    row = dict(zip(_MANNERS, values, strict=True))
    faults: list[Fault] = []

    def span(field: str, default: timedelta) -> timedelta:
        milliseconds = _take(row, field, int, None, faults)
        if milliseconds is None:
            return default
        if milliseconds not in _SPANS_MS:
            faults.append(Fault(field, f"{milliseconds} is not 0-{_SPANS_MS.stop - 1:,}"))
            return default
        return timedelta(milliseconds=milliseconds)

    manner = {
        "status": bool(row["status"]),
        "retry": _retry(_take(row, "retry", str, "", faults), faults),
        "misfire": Misfire(
            policy=_one_of(MisfirePolicy, "misfire_policy", row, MisfirePolicy.ONCE, faults),
            window=span("misfire_window_ms", DEFAULT_WINDOW),
            cap=_take(row, "misfire_cap", int, DEFAULT_CAP, faults),
        ),
        "overlap": _one_of(OverlapPolicy, "overlap_policy", row, OverlapPolicy.ALLOW, faults),
        "timeout": None if row["timeout_ms"] is None else span("timeout_ms", timedelta(0)),
        "jitter": span("jitter_ms", timedelta(0)),
        "queue": _take(row, "queue", str, "", faults) or MAIN_QUEUE,
    }
    return manner, tuple(faults)


_A: dict[type[Any], str] = {str: "text", int: "a whole number", datetime: "a time"}


def _take(row: _Cells, field: str, kind: type[T], default: D, faults: list[Fault]) -> T | D:
    value = row[field]
    if value is None:
        return default
    if isinstance(value, kind):
        return value
    faults.append(Fault(field, f"{value!r} is not {_A[kind]}"))
    return default


def _one_of(kinds: type[E], field: str, row: _Cells, default: E, faults: list[Fault]) -> E:
    value = row[field]
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
