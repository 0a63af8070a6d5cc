"""What a body says of a schedule: all of it, or a patch."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

import attrs
from msgspec import Meta

from cronhare.adapters.jobs.fields import Id
from cronhare.adapters.jobs.schedules import ScheduleFields, read_draft
from cronhare.adapters.jobs.tasks import Policies
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.cron import Fold
from cronhare.domain.reading import Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog, NoListener
from cronhare.domain.schedules.conditions import NONE, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, faults_of
from cronhare.domain.schedules.schedule import SYSTEM_PREFIX
from cronhare.domain.schedules.task import COLUMN_OF_TYPE, Task, TaskRef, TaskType
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import NAME, hint, listed
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.schedules import StoredSchedule

from ...container import Container
from ..operations import Call

#: A schedule that was made or edited, and what is noted on it.
Made: TypeAlias = tuple[ScheduleView, Sequence[str]]

LONGEST_DESCRIPTION: Final = 4_096

#: The fields that number the task, with its type: an event is told by its topic.
COLUMNS: Final = {
    COLUMN_OF_TYPE[kind]: kind for kind in (TaskType.REPORT, TaskType.WORKER, TaskType.REMINDER)
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


def name_for(request: UUID) -> str:
    return f"http-{request.hex}"


def read_new(
    content: Mapping[str, Any], faults: list[Fault], *, name: str, container: Container
) -> ScheduleDraft:
    """Read a body as a jobs file's schedule is read; without a name it has this one.

    Raises:
        ScheduleInvalid: with every fault at once, those in *faults* among them.
    """
    given = {name: value for name, value in content.items() if value is not None}
    tried = fields_tried(given, faults)
    body = read_table(NewScheduler, given, faults)
    task = None if "topic" in tried else find_task(body, tried, container.catalog(), faults)
    if "topic" in tried and not tried.isdisjoint(OF_TASK):
        faults.append(TASK_AND_TOPIC)
    if not {"schedule", "date_time", "every"} & tried and not body.stay_alive:
        faults.append(WITHOUT_TIMES)
    policy = container.settings().policy
    draft = draft_of(body.name or name, body, task, faults, policy=policy)
    if faults:
        raise ScheduleInvalid(each_once(faults))
    return attrs.evolve(draft, task_name=None)  # a row of no file has the number alone


def draft_of(
    name: str, body: NewScheduler, task: Task | None, faults: list[Fault], *, policy: RetryPolicy
) -> ScheduleDraft:
    return read_draft(name, body, task, Policies(environment=policy, folder=Path()), faults)


def fields_tried(content: Mapping[str, Any], faults: Collection[Fault]) -> set[str]:
    """Name the fields that somebody meant to give, those at fault among them."""
    return {*content, *(re.split(r"[.\[]", fault.field)[0] for fault in faults)}


def each_once(faults: Collection[Fault]) -> tuple[Fault, ...]:
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


@attrs.frozen(kw_only=True)
class SchedulerPatch(NewScheduler):
    """What is to be other than it is: a merge patch (RFC 7396).

    What is left out stays, what is null gets its default. A schedule keeps its name. A task takes
    the place of a topic, and a topic that of a task.
    """


#: Fields of a body that a draft has under the same name.
_SAME: Final = attrs.fields_dict(ScheduleFields).keys() & attrs.fields_dict(ScheduleDraft).keys()
#: Fields of a body that are parts of one field of a draft.
_CONDITIONS: Final = frozenset(field.name for field in attrs.fields(Conditions))
#: Without these the others of the times cannot be read.
_TIMES: Final = ("schedule", "date_time", "every", "timezone")


def edit_schedule(
    container: Container,
    scheduler_id: int,
    content: Mapping[str, Any],
    call: Call,
    *,
    seen: Callable[[StoredSchedule], bool] | None,
) -> Made:
    """Change what *content* says of a schedule, if it is still as it was *seen*.

    Raises:
        ScheduleInvalid: with every fault at once, those of the *call* among them.
    """
    notes = list[str]()

    def change(stored: StoredSchedule, draft: ScheduleDraft) -> ScheduleDraft:
        new = _patched(content, [*call.faults], stored=stored, draft=draft, container=container)
        notes[:] = container.draft_notes().of(new, before=draft)
        return new

    editor = container.schedule_editor()
    return editor.edit(scheduler_id, change, seen=seen, actor=call.actor), notes


def _patched(
    content: Mapping[str, Any],
    faults: list[Fault],
    *,
    stored: StoredSchedule,
    draft: ScheduleDraft,
    container: Container,
) -> ScheduleDraft:
    """Read a body as what is to change of the *draft* of a row that is *stored*."""
    catalog, policy = container.catalog(), container.settings().policy
    given = {name: value for name, value in content.items() if value is not None}
    body = read_table(SchedulerPatch, given, faults)
    tried = fields_tried(content, faults)
    if "name" in tried and body.name != stored.name:
        faults.append(Fault("name", f"a schedule keeps its name, which is {stored.name}"))
    said = fields_tried(given, faults)
    of_task = {name for name in OF_TASK if name in said}
    topic = _new_topic(body, draft, tried, said, faults)
    task = (
        _new_task(body, of_task, stored, catalog, faults)
        if of_task
        else _known(catalog.find(draft.task, source=stored.source, name=draft.task_name))
    )
    kept = _kept(draft, tried) | {"topic": topic}
    if topic is not None and "topic" in said and not tried & {"params", "payload"}:
        kept["payload"] = draft.params
    new = draft_of(stored.name, attrs.evolve(body, **kept), task, faults, policy=policy)
    runs_another = bool(of_task) or "topic" in said
    changed = attrs.evolve(draft, **_changes(draft, new, tried, runs_another=runs_another))
    faults += faults_of(changed)
    if not _begins(changed) and _begins(draft):
        faults.append(WITHOUT_TIMES)
    if faults:
        raise ScheduleInvalid(each_once(faults))
    return changed


def _new_topic(
    body: NewScheduler,
    draft: ScheduleDraft,
    tried: Collection[str],
    said: Collection[str],
    faults: list[Fault],
) -> str | None:
    has_task = not set(OF_TASK).isdisjoint(said)
    if "topic" not in tried:
        return None if has_task else draft.topic
    if "topic" in said and has_task:
        faults.append(TASK_AND_TOPIC)
    if draft.topic is not None and "topic" not in said and not has_task:
        faults.append(Fault("topic", f"give another, or one of {', '.join(OF_TASK)} instead"))
    return body.topic


def _kept(draft: ScheduleDraft, tried: Collection[str]) -> dict[str, Any]:
    """Give what the reader has to know of a draft to judge the fields that were *tried*."""
    kept = {name: getattr(draft, name) for name in _TIMES if name not in tried}
    if "stay_alive" not in tried:
        kept["stay_alive"] = draft.stay_alive
    elif "queue" not in tried and draft.queue != MAIN_QUEUE:
        kept["queue"] = draft.queue
    return kept


def _begins(draft: ScheduleDraft) -> bool:
    return draft.has_times or draft.stay_alive


def _changes(
    draft: ScheduleDraft, new: ScheduleDraft, tried: Collection[str], *, runs_another: bool
) -> dict[str, Any]:
    changed = {name: getattr(new, name) for name in tried if name in _SAME and name != "params"}
    if ("params" if new.topic is None else "payload") in tried:
        changed["params"] = new.params
    if "schedule" in tried and new.schedule is None:
        changed |= {"gap": new.gap, "fold": new.fold}  # they are for cron text
    if _CONDITIONS & set(tried):
        before, said = draft.conditions or NONE, new.conditions or NONE
        merged = Conditions(
            **{name: getattr(said if name in tried else before, name) for name in _CONDITIONS}
        )
        changed["conditions"] = None if merged == NONE else merged
    if runs_another:
        changed |= {"task": new.task, "task_name": new.task_name, "topic": new.topic}
        changed |= {"retention": new.retention, "retry": new.retry}
        if draft.topic is not None and new.topic is None:
            changed.setdefault("no_listener", NoListener.COMPLETE)
        if draft.task_name is None:
            changed["task_name"] = None
    return changed


def _known(found: object) -> Task | None:
    return found if isinstance(found, Task) else None


def _new_task(
    body: NewScheduler,
    tried: Collection[str],
    stored: StoredSchedule,
    catalog: Catalog,
    faults: list[Fault],
) -> Task | None:
    task = find_task(body, tried, catalog, faults)
    if task is not None and stored.source is not None and task.source != stored.source:
        text = f"a schedule of {stored.source} runs a task of that file, and this is of another"
        faults.append(Fault(next(iter(tried)), text))
    return task
