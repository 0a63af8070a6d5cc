"""The columns that name a schedule's task: a group, as in `schedule_columns`."""

from typing import Any, Final

import msgspec

from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.schedule import LONGEST_NAME
from cronhare.domain.schedules.task import SYSTEM, TaskRef
from cronhare.domain.texts.echo import echo

from .bounded_cache import TASKS_CACHED, cached

#: The column that names the task, by the task's type; exactly one of them is set.
COLUMN_OF_TYPE: Final = {
    "report": "report_id",
    "worker": "worker_id",
    "reminder": "reminder_id",
    "event": "event_id",
    SYSTEM: "system_id",
}

#: The columns that name the task.
TASK_COLUMNS: Final = ("source", "task_name", *COLUMN_OF_TYPE.values())

#: The task of a schedule whose row names none.
NOWHERE: Final = TaskRef("report", 0)


class NamedTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says of its task: its number always, its source and name where it has them."""

    ref: TaskRef
    source: str | None
    name: str | None
    faults: tuple[Fault, ...] = ()


@cached(entries=TASKS_CACHED)
def read_task(values: tuple[Any, ...]) -> NamedTask:
    """Read `TASK_COLUMNS`, in their order."""
    faults: list[Fault] = []
    source, name = _name("source", values[0], faults), _name("task_name", values[1], faults)
    if name is not None and source is None:
        faults.append(Fault("task_name", "names a task of no source: set source, or clear both"))
    ref = _number(values[2:], faults)
    return NamedTask(ref=ref, source=source, name=name, faults=tuple(faults))


def _name(column: str, value: object, faults: list[Fault]) -> str | None:
    """Read a name; each execution keeps it, in a column with a bound.

    A faulty name stays a name of its own: its row must not pass for that of another source.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= LONGEST_NAME:
        return value
    faults.append(Fault(column, f"is not text of at most {LONGEST_NAME} letters"))
    return echo(value)


def _number(ids: tuple[Any, ...], faults: list[Fault]) -> TaskRef:
    named = [(kind, id_) for kind, id_ in zip(COLUMN_OF_TYPE, ids, strict=True) if id_ is not None]
    if len(named) != 1:
        columns = ", ".join(column for kind, column in COLUMN_OF_TYPE.items() if kind != SYSTEM)
        faults.append(Fault("task", f"one of {columns} is to be set, not {len(named)} of them"))
        return NOWHERE
    [(kind, id_)] = named
    if not isinstance(id_, int) or not 0 <= id_ <= LARGEST_ID:
        faults.append(Fault(COLUMN_OF_TYPE[kind], f"{echo(id_)} is no task's number"))
        return NOWHERE
    return TaskRef(kind, id_)
