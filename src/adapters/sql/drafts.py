"""Rows of the users' table, understood or found broken. People write them by hand."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Row, type_coerce
from sqlalchemy.types import NullType

from cronhare.domain.draft import Fault, ScheduleDraft
from cronhare.domain.echo import echo, shown
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.params import fault_of_params
from cronhare.domain.schedule import LONGEST_NAME, BrokenSchedule, Schedule
from cronhare.domain.task import TaskRef

from .cells import LONG_AGO, MANNER, TIMES, Manner, Times, read_manner, read_times
from .rows import answer_to, policy_text
from .tables import schedulers
from .types import milliseconds

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

#: The task of a schedule whose row names none.
_NOWHERE = TaskRef("report", 0)

#: What stands for a row that cannot be read at all.
_NO_TIMES = read_times((None,) * len(TIMES))
_NO_MANNER = read_manner((None,) * len(MANNER))

#: What is read of a row, and what each row begins with that is read here. Not all columns, and by
#: their places: most of a busy minute is spent on reading.
READ = tuple(
    schedulers.c[name]
    for name in (
        "id", "name", "params", "updated_at", "source", "task_name", *COLUMN_OF_TYPE.values(),
        *TIMES, *MANNER,
    )
)  # fmt: skip
_IN_TASK = slice(4, 6 + len(COLUMN_OF_TYPE))
_IN_TIMES = slice(_IN_TASK.stop, _IN_TASK.stop + len(TIMES))
_IN_MANNER = slice(_IN_TIMES.stop, len(READ))


class NamedTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says of its task: its number always, its source and name where it has them."""

    ref: TaskRef
    source: str | None
    name: str | None


#: What stands for the task of a row that cannot be read at all: nobody's, lest it be anybody's.
_NO_TASK = NamedTask(ref=_NOWHERE, source="a row that cannot be read", name=None)


def draft_of(row: Row[Any]) -> tuple[ScheduleDraft | None, str | None]:
    """Read a row as a draft, or say what is wrong with it."""
    times, manner, task, params, faults = _read(row)
    if row.description is not None and not isinstance(row.description, str):
        faults.append(Fault("description", f"{echo(row.description)} is not text"))
    if faults:
        return None, _say(faults)
    return ScheduleDraft(
        name=answer_to(row.name, row.id),
        task=task.ref,
        task_name=task.name,
        schedule=times.schedule,
        date_time=times.date_time,
        timezone=times.timezone,
        params=params,
        status=manner.status,
        description=row.description,
        retry=manner.retry,
        misfire=manner.misfire,
        overlap=manner.overlap,
        timeout=manner.timeout,
        jitter=manner.jitter,
        starts_at=times.starts_at,
        ends_at=times.ends_at,
        queue=manner.queue,
    ), None


def schedule_of(row: Row[Any]) -> Schedule | BrokenSchedule:
    """Read a row as a schedule. For each due one: what `understand` does, with less to make."""
    times, manner, task, params, faults = _read(row)
    name = answer_to(row.name, row.id)
    if faults:
        changed_at = moment_or_long_ago(row.updated_at)
        return BrokenSchedule(
            id=row.id,
            name=name,
            problem=_say(faults),
            changed_at=changed_at,
            source=task.source,
        )
    return Schedule(
        id=row.id,
        name=name,
        task=task.ref,
        source=task.source,
        task_name=task.name,
        timing=times.timing,
        changed_at=row.updated_at,
        params=params,
        enabled=manner.status,
        retry=manner.retry,
        misfire=manner.misfire,
        overlap=manner.overlap,
        timeout=manner.timeout,
        jitter=manner.jitter,
        starts_at=times.starts_at,
        ends_at=times.ends_at,
        queue=manner.queue,
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
        "task_name": draft.task_name,
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
    return value if isinstance(value, datetime) else LONG_AGO


def _read(row: Row[Any]) -> tuple[Times, Manner, NamedTask, str, list[Fault]]:
    """Read a row, whatever is in it: this is the one place where that may go wrong.

    What nobody foresaw is a fault of that row as well, or it would stop all others.
    """
    try:
        times, manner = read_times(row[_IN_TIMES]), read_manner(row[_IN_MANNER])
        faults = [*times.faults, *manner.faults]
        task = _task(row[_IN_TASK], faults)
        params = _params(row.params, faults)
        name = row.name
        if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_NAME):
            faults.append(_fault_of_name(name))
        if not isinstance(row.updated_at, datetime):
            faults.append(Fault("updated_at", f"{echo(row.updated_at)} is no time"))
    except MemoryError:  # says nothing of the row
        raise
    except Exception as error:  # noqa: BLE001 - see above
        unforeseen = Fault("row", f"cannot be read: {type(error).__name__}: {shown(str(error))}")
        return _NO_TIMES, _NO_MANNER, _NO_TASK, "{}", [unforeseen]
    return times, manner, task, params, faults


def _fault_of_name(name: object) -> Fault:
    if isinstance(name, str):
        return Fault("name", f"{len(name):,} letters, {LONGEST_NAME} are allowed")
    return Fault("name", f"{echo(name)} is not text")


def _say(faults: Sequence[Fault]) -> str:
    return "; ".join(map(str, faults))


def _task(values: Sequence[Any], faults: list[Fault]) -> NamedTask:
    source, name = _name("source", values[0], faults), _name("task_name", values[1], faults)
    if name is not None and source is None:
        faults.append(Fault("task_name", "names a task of no source: set source, or clear both"))
    return NamedTask(ref=_number(values[2:], faults), source=source, name=name)


def _name(column: str, value: object, faults: list[Fault]) -> str | None:
    """Read a name that is kept with each execution, where its column has a bound.

    A name at fault stays one, and another than all others: its row is nobody else's.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= LONGEST_NAME:
        return value
    faults.append(Fault(column, f"is not text of at most {LONGEST_NAME} letters"))
    return echo(value)


def _number(ids: Sequence[Any], faults: list[Fault]) -> TaskRef:
    named = [(kind, id_) for kind, id_ in zip(COLUMN_OF_TYPE, ids, strict=True) if id_ is not None]
    if len(named) != 1:
        columns = ", ".join(column for kind, column in COLUMN_OF_TYPE.items() if kind != "system")
        faults.append(Fault("task", f"one of {columns} is to be set, not {len(named)} of them"))
        return _NOWHERE
    [(kind, id_)] = named
    if not isinstance(id_, int) or not 0 <= id_ <= LARGEST_ID:
        faults.append(Fault(COLUMN_OF_TYPE[kind], f"{echo(id_)} is no task's number"))
        return _NOWHERE
    return TaskRef(kind, id_)


def _params(value: object, faults: list[Fault]) -> str:
    if value is None:
        return "{}"
    try:
        if isinstance(value, str):
            if (too_large := fault_of_params(value)) is not None:
                faults.append(Fault("params", too_large))
            else:
                msgspec.json.decode(value)
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        faults.append(Fault("params", f"not JSON: {error}"))
    else:
        faults.append(Fault("params", f"{echo(value)} is not JSON text"))
    return "{}"
