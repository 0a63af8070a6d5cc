"""`POST /schedulers`: from a body to a draft.

The columns are those of S1.3 in docs/compatibility.md; what a jobs file says of a schedule besides
has the names, the bounds and the sentences that it has there.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final
from uuid import UUID

import attrs
from msgspec import Meta

from cronhare.adapters.jobs.fields import Id
from cronhare.adapters.jobs.schedules import ScheduleFields, ScheduleTable, read_draft
from cronhare.adapters.jobs.tasks import Policies
from cronhare.domain.cron import Fold
from cronhare.domain.reading import Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid
from cronhare.domain.schedules.schedule import (
    SYSTEM_PREFIX,
)
from cronhare.domain.schedules.task import Task, TaskRef, TaskType
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import NAME, hint, listed

LONGEST_DESCRIPTION: Final = 4_096

#: The column that names the task, by the task's type.
COLUMNS: Final = {
    "report_id": TaskType.REPORT,
    "worker_id": TaskType.WORKER,
    "reminder_id": TaskType.REMINDER,
}
#: The fields that name the task: one of them is to be given, or a topic.
OF_TASK: Final = ("task", *COLUMNS)
_GIVE_ONE: Final = f"give one of {', '.join(OF_TASK)} or topic"
_WITHOUT_TASK: Final = Fault("task", f"is missing; {_GIVE_ONE}")
TASK_AND_TOPIC: Final = Fault("topic", "a schedule names a task or a topic, not both")
WITHOUT_TIMES: Final = Fault(
    "schedule", "is missing; give schedule, date_time, every or stay_alive"
)

Name = Annotated[
    str,
    Meta(
        pattern=rf"^(?!{SYSTEM_PREFIX}){NAME}(?![\s\S])",  # $ would allow a last line end
        description=f"a name of a-z, 0-9 and . _ -, at most 63, that does not begin with "
        f"{SYSTEM_PREFIX}",
    ),
]
Description = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00]*$",
        max_length=LONGEST_DESCRIPTION,
        description=f"text of at most {LONGEST_DESCRIPTION:,} letters, without NUL",
    ),
]


@attrs.frozen(kw_only=True)
class NewScheduler(ScheduleFields):
    """A schedule to be created: `schedule`, `date_time`, `every` or `stay_alive`, and one task.

    The task is named as its jobs file names it, or by its number in the column of its type; or a
    `topic` stands in its place, with a `payload` instead of `params`. What is null counts as not
    given. A moment without an offset is wall time in `timezone`. The fields that are no columns of
    the original are as in a jobs file.
    """

    name: Name | None = None
    description: Description | None = None
    task: str | None = None
    report_id: Id | None = None
    worker_id: Id | None = None
    reminder_id: Id | None = None
    # Of these a jobs file takes more than JSON has.
    date_time: str | None = None
    starts_at: str | None = None
    ends_at: str | None = None
    fold: Fold = Fold.FIRST


#: The fields that a jobs file has as well, under the same names.
AS_IN_A_FILE: Final = tuple(
    field.name for field in attrs.fields(NewScheduler) if field.name not in {"name", *OF_TASK}
)


def name_for(request: UUID) -> str:
    """Name a schedule for which its request has no name."""
    return f"http-{request.hex}"


def read_new(
    content: Mapping[str, Any],
    faults: list[Fault],
    *,
    name: str,
    catalog: Catalog,
    policy: RetryPolicy,
) -> ScheduleDraft:
    """Read a body as a jobs file's schedule is read; without a name it has this one.

    Raises:
        ScheduleInvalid: with every fault at once, those in *faults* among them.
    """
    given = {name: value for name, value in content.items() if value is not None}
    tried = fields_tried(given, faults)
    body = read_table(NewScheduler, given, faults)
    task = None if "topic" in tried else find_task(body, tried, catalog, faults)
    if "topic" in tried and not tried.isdisjoint(OF_TASK):
        faults.append(TASK_AND_TOPIC)
    if not {"schedule", "date_time", "every"} & tried and not body.stay_alive:
        faults.append(WITHOUT_TIMES)
    draft = draft_of(body.name or name, body, task, faults, policy=policy)
    if faults:
        raise ScheduleInvalid(each_once(faults))
    return attrs.evolve(draft, task_name=None)  # a row of no file has the number alone


def draft_of(
    name: str,
    body: NewScheduler,
    task: Task | None,
    faults: list[Fault],
    *,
    policy: RetryPolicy,
    kept: Mapping[str, Any] = MappingProxyType({}),
) -> ScheduleDraft:
    """Make a draft of a body, in which *kept* stands instead of what it says."""
    same = {field: getattr(body, field) for field in AS_IN_A_FILE} | {**kept}
    named = None if same["topic"] is not None else "" if task is None else task.name
    # `manual` silences the reader about times that are missing: that is told elsewhere.
    table = ScheduleTable(task=named, manual=True, **same)
    policies = Policies(environment=policy, folder=Path())
    return read_draft(name, table, task, policies, faults)


def fields_tried(content: Mapping[str, Any], faults: Collection[Fault]) -> set[str]:
    """Name the fields that somebody meant to give, those at fault among them."""
    return {*content, *(re.split(r"[.\[]", fault.field)[0] for fault in faults)}


def each_once(faults: Collection[Fault]) -> tuple[Fault, ...]:
    """Leave out what was found twice."""
    return tuple(dict.fromkeys(faults))


def find_task(
    body: NewScheduler, tried: Collection[str], catalog: Catalog, faults: list[Fault]
) -> Task | None:
    """Find the task: those that there are come from a jobs file alone."""
    fields = [field for field in OF_TASK if field in tried]
    if not fields:
        faults.append(_WITHOUT_TASK)
        return None
    field, *others = fields
    if others:
        text = f"{field} is given as well; {_GIVE_ONE}"
        faults += [Fault(other, text) for other in others]
        return None
    value = getattr(body, field)
    if value is None:
        return None  # a fault of its own
    if field == "task":
        return _task_named(value, catalog, faults)
    kind = COLUMNS[field]
    found = catalog.find(TaskRef(kind.value, value))
    if isinstance(found, Task):
        return found
    there = [f"{task.name} ({task.ref.id})" for task in catalog if task.ref.type == kind]
    text = f"there is no {kind.value} {value}; there are: {listed(there) or 'none'}"
    faults.append(Fault(field, text))
    return None


def _task_named(name: str, catalog: Catalog, faults: list[Fault]) -> Task | None:
    for task in catalog:
        if task.name == name:
            return task
    known = [task.name for task in catalog]
    faults.append(Fault("task", f"there is no task {echo(name)}; {hint(name, known)}"))
    return None
