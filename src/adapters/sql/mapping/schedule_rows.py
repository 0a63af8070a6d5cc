"""Rows of the users' table, read or found broken. People write them by hand."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Row, type_coerce
from sqlalchemy.types import NullType

from cronhare.domain.reading import Fault
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.owner import OWNER_FIELDS
from cronhare.domain.schedules.params import fault_of_params
from cronhare.domain.schedules.schedule import LONGEST_NAME, BrokenSchedule, Schedule
from cronhare.domain.schedules.standalone import standalone_queue
from cronhare.domain.texts.echo import echo, shown

from ..schema.tables import schedulers
from .execution_rows import display_name
from .retentions import read_retention, write_retention
from .schedule_columns import (
    LONG_AGO,
    RUN_OPTION_COLUMNS,
    TIME_COLUMNS,
    RunOptions,
    ScheduleTimes,
    column_values,
    read_named_times,
    read_run_options,
    read_times,
)
from .task_columns import NOWHERE, TASK_COLUMNS, NamedTask, read_task, task_values

#: A row's updated_at exactly as it is: a plan keeps it, to see edits without comparing clocks.
STAMP = type_coerce(schedulers.c.updated_at, NullType())

#: These replace the columns of a row that cannot be read at all.
_NO_TIMES = read_times((None,) * len(TIME_COLUMNS))
_NO_OPTIONS = read_run_options((None,) * len(RUN_OPTION_COLUMNS))

# Its task has a source of its own, lest it pass for a task of a jobs file.
_NO_TASK = NamedTask(ref=NOWHERE, source="a row that cannot be read", name=None)

#: The columns that each row begins with that is read here. Not all of them, and read by place: most
#: of a busy minute is spent on reading.
READ = tuple(
    schedulers.c[name]
    for name in (
        "id",
        "name",
        "params",
        "updated_at",
        *TASK_COLUMNS,
        *TIME_COLUMNS,
        *RUN_OPTION_COLUMNS,
    )
)
_IN_TASK = slice(4, 4 + len(TASK_COLUMNS))
_IN_TIMES = slice(_IN_TASK.stop, _IN_TASK.stop + len(TIME_COLUMNS))
_IN_OPTIONS = slice(_IN_TIMES.stop, len(READ))


def draft_of(row: Row[Any]) -> tuple[ScheduleDraft | None, str | None]:
    """Read a row as a draft, or say what is wrong with it."""
    times, options, task, params, faults = _read(row)
    if row.description is not None and not isinstance(row.description, str):
        faults.append(Fault("description", f"{echo(row.description)} is not text"))
    owner = {name: getattr(row, name) for name in OWNER_FIELDS}
    for name, value in owner.items():
        if not (value is None or isinstance(value, int)):
            faults.append(Fault(name, f"{echo(value)} is not a whole number"))
    retention = read_retention(row.retention)
    if isinstance(retention, str):
        faults.append(Fault("retention", retention))
    if faults:
        return None, _say(faults)
    return ScheduleDraft(
        name=display_name(row.name, row.id),
        task=task.ref,
        task_name=task.name,
        topic=task.topic,
        params=params,
        description=row.description,
        **owner,
        retention=None if isinstance(retention, str) else retention,
        **times.draft,
        **options.draft,
    ), None


def schedule_of(row: Row[Any]) -> Schedule | BrokenSchedule:
    """Read a row as a schedule: as `compile_schedule` does, but faster, for each due one."""
    times, options, task, params, faults = _read(row)
    name = display_name(row.name, row.id)
    if faults:
        changed_at = moment_or_long_ago(row.updated_at)
        return BrokenSchedule(
            id=row.id,
            name=name,
            problem=_say(faults),
            changed_at=changed_at,
            source=task.source,
        )
    how = options.schedule
    if options.draft["stay_alive"]:
        overlap = options.draft["overlap"].alone
        how = {**how, "queue": standalone_queue(name), "overlap": overlap}
    return Schedule(
        id=row.id,
        name=name,
        task=task.ref,
        source=task.source,
        task_name=task.name,
        topic=task.topic,
        changed_at=row.updated_at,
        params=params,
        **times.schedule,
        **how,
    )


def row_values(draft: ScheduleDraft) -> dict[str, Any]:
    """Write a draft as the columns of its row."""
    return {
        **task_values(draft),
        "task_name": draft.task_name,
        "name": draft.name,
        "params": draft.params,
        "description": draft.description,
        **{name: getattr(draft, name) for name in OWNER_FIELDS},
        "retention": write_retention(draft.retention),
        **column_values(draft),
    }


def moment_or_long_ago(value: object) -> datetime:
    """Give a moment; `LONG_AGO` for what is none."""
    return value if isinstance(value, datetime) else LONG_AGO


def _read(row: Row[Any]) -> tuple[ScheduleTimes, RunOptions, NamedTask, str, list[Fault]]:
    """Read a row, whatever is in it.

    An unforeseen error is a fault of that row as well, or it would stop all others.
    """
    try:
        times, options = read_times(row[_IN_TIMES]), read_run_options(row[_IN_OPTIONS])
        if times.named:
            times = read_named_times((display_name(row.name, row.id), *row[_IN_TIMES]))
        task = read_task(row[_IN_TASK])
        faults = [*times.faults, *options.faults, *task.faults]
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
        return _NO_TIMES, _NO_OPTIONS, _NO_TASK, "{}", [unforeseen]
    return times, options, task, params, faults


def _fault_of_name(name: object) -> Fault:
    if isinstance(name, str):
        return Fault("name", f"{len(name):,} letters, {LONGEST_NAME} are allowed")
    return Fault("name", f"{echo(name)} is not text")


def _say(faults: Sequence[Fault]) -> str:
    return "; ".join(map(str, faults))


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
