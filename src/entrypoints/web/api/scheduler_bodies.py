"""`POST /schedulers`: from a body in the columns of S1.3 in docs/compatibility.md to a draft."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self
from uuid import UUID

import attrs
from msgspec import Meta

from cronhare.adapters.jobs.policies import Policies
from cronhare.adapters.jobs.schedules import read_draft
from cronhare.adapters.jobs.schema import Id, OwnerNumber, ScheduleTable
from cronhare.adapters.jobs.tables import read_table
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.draft import Fault, ScheduleDraft, ScheduleInvalid
from cronhare.domain.schedules.schedule import DEFAULT_ZONE, SYSTEM_PREFIX
from cronhare.domain.schedules.task import Task, TaskRef, TaskType
from cronhare.domain.texts.listing import listed
from cronhare.domain.texts.names import NAME

LONGEST_DESCRIPTION: Final = 4_096

#: The column that names the task, by the task's type.
_COLUMNS: Final = {
    "report_id": TaskType.REPORT,
    "worker_id": TaskType.WORKER,
    "reminder_id": TaskType.REMINDER,
}

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
class NewScheduler:
    """A schedule to be created: `schedule` or `date_time`, and the number of one task.

    What is null counts as not given. A date-time without an offset is wall time in `timezone`.
    """

    name: Name | None = None
    schedule: str | None = None
    date_time: str | None = None
    timezone: str = DEFAULT_ZONE
    params: Any = attrs.field(factory=dict[str, Any])
    status: bool = True
    description: Description | None = None
    report_id: Id | None = None
    worker_id: Id | None = None
    reminder_id: Id | None = None
    user_id: OwnerNumber | None = None
    group_id: OwnerNumber | None = None
    language_id: OwnerNumber | None = None


#: The fields that a jobs file has as well, under the same names.
_AS_IN_A_FILE: Final = tuple(
    field.name for field in attrs.fields(NewScheduler) if field.name not in {"name", *_COLUMNS}
)


@attrs.frozen(kw_only=True)
class SchedulerView(ScheduleView):
    """A schedule as `cronhare schedules show --json` has it, and the columns of its task."""

    report_id: int | None = None
    worker_id: int | None = None
    reminder_id: int | None = None

    @classmethod
    def with_columns(cls, view: ScheduleView) -> Self:
        """Add the columns."""
        task = view.task
        numbers: dict[str, Any] = {
            column: task.id if task is not None and task.type == kind else None
            for column, kind in _COLUMNS.items()
        }
        return cls(**attrs.asdict(view, recurse=False), **numbers)


def read_new(
    content: Mapping[str, Any],
    faults: list[Fault],
    *,
    request: UUID,
    catalog: Catalog,
    policy: RetryPolicy,
) -> ScheduleDraft:
    """Read a body as a jobs file's schedule is read; without a name the *request* gives one.

    Raises:
        ScheduleInvalid: with every fault at once, those in *faults* among them.
    """
    given = {name: value for name, value in content.items() if value is not None}
    tried = {*given, *(re.split(r"[.\[]", fault.field)[0] for fault in faults)}
    body = read_table(NewScheduler, given, faults)
    task = _task(body, tried, catalog, faults)
    if not {"schedule", "date_time"} & tried:
        faults.append(Fault("schedule", "is missing; give schedule or date_time"))
    name = body.name or f"http-{request.hex}"
    same = {field: getattr(body, field) for field in _AS_IN_A_FILE}
    # `manual` silences the reader about times that are missing: that was told above.
    table = ScheduleTable(task="" if task is None else task.name, manual=True, **same)
    policies = Policies(environment=policy, folder=Path())
    draft = read_draft(name, table, task, policies, faults)
    if faults:
        raise ScheduleInvalid(tuple(faults))
    return attrs.evolve(draft, task_name=None)  # a row of no file has the number alone


def _task(
    body: NewScheduler, tried: Collection[str], catalog: Catalog, faults: list[Fault]
) -> Task | None:
    """Find the task: those that there are come from a jobs file alone."""
    columns = [column for column in _COLUMNS if column in tried]
    if len(columns) != 1:
        text = f"one of {', '.join(_COLUMNS)} is to be given, not {len(columns)} of them"
        faults.append(Fault("report_id", text))
        return None
    [column] = columns
    number, kind = getattr(body, column), _COLUMNS[column]
    if number is None:
        return None  # a fault of its own
    found = catalog.find(TaskRef(kind.value, number))
    if isinstance(found, Task):
        return found
    there = [f"{task.name} ({task.ref.id})" for task in catalog if task.ref.type == kind]
    text = f"there is no {kind.value} {number}; there are: {listed(there) or 'none'}"
    faults.append(Fault(column, text))
    return None
