"""The columns that name a schedule's task: a group, as in `schedule_columns`."""

from collections.abc import Collection
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.reading import Fault, Reads, read_table, text_of
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import LONGEST_NAME
from cronhare.domain.schedules.task import SYSTEM, TaskRef, fault_of_own_type
from cronhare.domain.schedules.topic import fault_of_topic, ref_of_topic
from cronhare.domain.texts.echo import echo

from .bounded_cache import TASKS_CACHED, cached
from .schedule_columns import given

#: The column that names the task, by the task's type. A task of any other type is named by
#: `task_type` and `task_id`; a row has one of all these ways.
COLUMN_OF_TYPE: Final = {
    "report": "report_id",
    "worker": "worker_id",
    "reminder": "reminder_id",
    "event": "event_id",
    SYSTEM: "system_id",
}

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


@cached(entries=TASKS_CACHED)
def read_task(values: tuple[Any, ...]) -> NamedTask:
    """Read `TASK_COLUMNS`, in their order."""
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
