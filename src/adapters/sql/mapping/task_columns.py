"""The columns that name a schedule's task: a group, as in `schedule_columns`."""

from typing import Any, Final

import msgspec

from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.reading import Fault
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import LONGEST_NAME
from cronhare.domain.schedules.task import SYSTEM, TaskRef, fault_of_own_type
from cronhare.domain.schedules.topic import fault_of_topic, ref_of_topic
from cronhare.domain.texts.echo import echo

from .bounded_cache import TASKS_CACHED, cached

#: The column that names the task, by the task's type. A task of any other type is named by
#: `task_type` and `task_id`; a row has one of all these ways.
COLUMN_OF_TYPE: Final = {
    "report": "report_id",
    "worker": "worker_id",
    "reminder": "reminder_id",
    "event": "event_id",
    SYSTEM: "system_id",
}

#: The columns that number the task.
NUMBER_COLUMNS: Final = (*COLUMN_OF_TYPE.values(), "task_type", "task_id")

#: The columns that name the task.
TASK_COLUMNS: Final = ("source", "task_name", *NUMBER_COLUMNS, "topic")

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


@cached(entries=TASKS_CACHED)
def read_task(values: tuple[Any, ...]) -> NamedTask:
    """Read `TASK_COLUMNS`, in their order."""
    faults: list[Fault] = []
    source, name = _name("source", values[0], faults), _name("task_name", values[1], faults)
    if name is not None and source is None:
        faults.append(Fault("task_name", "names a task of no source: set source, or clear both"))
    *numbers, topic = values[2:]
    if topic is None or topic == "":
        ref, topic = _number(tuple(numbers), faults), None
    else:
        ref, topic = _topic(topic, tuple(numbers), name, faults)
    return NamedTask(ref=ref, source=source, name=name, topic=topic, faults=tuple(faults))


def _topic(
    value: object, numbers: tuple[Any, ...], name: str | None, faults: list[Fault]
) -> tuple[TaskRef, str | None]:
    """Read a topic, beside which no task is named."""
    if name is not None or any(number not in {None, ""} for number in numbers):
        faults.append(Fault("topic", "a row has a topic or names a task, not both"))
    problem = fault_of_topic(value) if isinstance(value, str) else "is not text"
    if problem is not None:
        faults.append(Fault("topic", f"{echo(value)}: {problem}"))
        return NOWHERE, None
    topic = str(value)
    return ref_of_topic(topic), topic


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
    *numbers, own_type, own_id = ids
    ways = [
        (kind, COLUMN_OF_TYPE[kind], id_)
        for kind, id_ in zip(COLUMN_OF_TYPE, numbers, strict=True)
        if id_ is not None
    ]
    if (own_type or None, own_id) != (None, None):
        ways.append((_own_type(own_type, faults), "task_id", own_id))
    if len(ways) != 1:
        columns = ", ".join(column for kind, column in COLUMN_OF_TYPE.items() if kind != SYSTEM)
        faults.append(Fault("task", f"one of {columns} is to be set, not {len(ways)} of them"))
        return NOWHERE
    [(kind, column, id_)] = ways
    if not isinstance(id_, int) or not 0 <= id_ <= LARGEST_ID:
        faults.append(Fault(column, f"{echo(id_)} is no task's number"))
        return NOWHERE
    return TaskRef(kind, id_)


def _own_type(value: object, faults: list[Fault]) -> str:
    """Read the type beside a `task_id`; the types that have a column of their own stay there."""
    if not isinstance(value, str):
        faults.append(Fault("task_type", f"{echo(value)} names no type beside a task_id"))
        return NOWHERE.type
    problem = fault_of_own_type(value)
    if problem is None and value in COLUMN_OF_TYPE:
        problem = f"{value} has a column of its own, {COLUMN_OF_TYPE[value]}"
    if problem is not None:
        faults.append(Fault("task_type", f"{echo(value)}: {problem}"))
        return NOWHERE.type
    return value
