"""Rows of the users' table, read or found broken. People write them by hand."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from sqlalchemy import Row, type_coerce
from sqlalchemy.types import NullType

from cronhare.domain.reading import Fault, Reads, read_table
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.owner import OWNER_FIELDS
from cronhare.domain.schedules.params import fault_of_params
from cronhare.domain.schedules.retention import ClassRetention
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
    ColumnGroup,
    column_values,
    decoded,
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


def _retention(value: object) -> ClassRetention | None:
    found = read_retention(value)
    if isinstance(found, str):
        raise ValueError(found)  # noqa: TRY004 - it says what is wrong
    return found


class _Others(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a draft has besides."""

    description: str | None = None
    user_id: int | None = None
    group_id: int | None = None
    language_id: int | None = None
    retention: Annotated[Any, Reads(_retention)] = None


def draft_of(row: Row[Any]) -> tuple[ScheduleDraft | None, str | None]:
    """Read a row as a draft, or say what is wrong with it."""
    times, options, task, params, faults = _read(row)
    named = ((column, getattr(row, column)) for column in _Others.__struct_fields__)
    said = {column: value for column, value in named if value is not None}
    others = read_table(_Others, said, faults, quote=echo)
    if faults:
        return None, _say(faults)
    return ScheduleDraft(
        name=display_name(row.name, row.id),
        task=task.ref,
        task_name=task.name,
        topic=task.topic,
        params=params,
        **msgspec.structs.asdict(others),
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


def _read(row: Row[Any]) -> tuple[ColumnGroup, ColumnGroup, NamedTask, str, list[Fault]]:
    """Read a row, whatever is in it.

    An unforeseen error is a fault of that row as well, or it would stop all others.
    """
    try:
        times, options = read_times(row[_IN_TIMES]), read_run_options(row[_IN_OPTIONS])
        if times.named:
            times = read_named_times((display_name(row.name, row.id), *row[_IN_TIMES]))
        task = read_task(row[_IN_TASK])
        faults = [*times.faults, *options.faults, *task.faults]
        params, name = row.params, row.name
        if params is None:
            params = "{}"
        elif (problem := _fault_of_params(params)) is not None:
            faults.append(Fault("params", problem))
        if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_NAME):
            text = f"{echo(name)} is not text of at most {LONGEST_NAME} letters"
            faults.append(Fault("name", text))
        if not isinstance(row.updated_at, datetime):
            faults.append(Fault("updated_at", f"{echo(row.updated_at)} is not a time"))
    except MemoryError:  # says nothing of the row
        raise
    except Exception as error:  # noqa: BLE001 - see above
        unforeseen = Fault("row", f"cannot be read: {type(error).__name__}: {shown(str(error))}")
        return _NO_TIMES, _NO_OPTIONS, _NO_TASK, "{}", [unforeseen]
    return times, options, task, params, faults


def _say(faults: Sequence[Fault]) -> str:
    return "; ".join(map(str, faults))


def _fault_of_params(value: object) -> str | None:
    if not isinstance(value, str):
        return f"{echo(value)} is not JSON text"
    try:
        if (problem := fault_of_params(value)) is None:
            decoded(value)
    except ValueError as error:
        return str(error)
    return problem
