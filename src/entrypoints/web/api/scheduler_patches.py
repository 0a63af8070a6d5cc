"""`PATCH /schedulers/{id}`: from what is to be other to a draft."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from cronhare.adapters.jobs.tables import read_table
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.conditions import NONE, Conditions
from cronhare.domain.schedules.draft import Fault, ScheduleDraft, ScheduleInvalid, faults_of
from cronhare.domain.schedules.task import Task
from cronhare.ports.schedules import StoredSchedule

from .scheduler_bodies import (
    AS_IN_A_FILE,
    OF_TASK,
    NewScheduler,
    draft_of,
    each_once,
    fields_tried,
    find_task,
)


@attrs.frozen(kw_only=True)
class SchedulerPatch(NewScheduler):
    """What is to be other than it is: a merge patch (RFC 7396).

    What is left out stays, what is null gets its default. A schedule keeps its name.
    """


#: Fields of a body that a draft has under the same name.
_SAME: Final = frozenset(AS_IN_A_FILE) & {field.name for field in attrs.fields(ScheduleDraft)}
#: Fields of a body that are parts of one field of a draft.
_CONDITIONS: Final = frozenset(field.name for field in attrs.fields(Conditions))
#: Without these the others of the times cannot be read.
_TIMES: Final = ("schedule", "date_time", "every", "timezone")


def read_patch(
    content: Mapping[str, Any],
    faults: list[Fault],
    *,
    stored: StoredSchedule,
    draft: ScheduleDraft,
    catalog: Catalog,
    policy: RetryPolicy,
) -> ScheduleDraft:
    """Read a body as what is to change of the *draft* of a row that is *stored*.

    Raises:
        ScheduleInvalid: with every fault at once, those in *faults* among them.
    """
    faults = [*faults]
    given = {name: value for name, value in content.items() if value is not None}
    body = read_table(SchedulerPatch, given, faults)
    tried = fields_tried(content, faults)
    if "name" in tried and body.name != stored.name:
        faults.append(Fault("name", f"a schedule keeps its name, which is {stored.name}"))
    of_task = {name for name in OF_TASK if name in fields_tried(given, faults)}
    task = (
        _new_task(body, of_task, stored, catalog, faults)
        if of_task
        else _known(catalog.find(draft.task, source=stored.source, name=draft.task_name))
    )
    kept = {name: _as_written(getattr(draft, name)) for name in _TIMES if name not in tried}
    new = draft_of(stored.name, body, task, faults, policy=policy, kept=kept)
    changed = attrs.evolve(draft, **_changes(draft, new, tried, has_new_task=bool(of_task)))
    faults += faults_of(changed)
    if not changed.has_times and draft.has_times:
        faults.append(Fault("schedule", "is missing; give schedule, date_time or every"))
    if faults:
        raise ScheduleInvalid(each_once(faults))
    return changed


def _changes(
    draft: ScheduleDraft, new: ScheduleDraft, tried: Collection[str], *, has_new_task: bool
) -> dict[str, Any]:
    """Give the fields of a draft that a patch changes, as they are in *new*."""
    changed = {name: getattr(new, name) for name in tried if name in _SAME}
    if "schedule" in tried and new.schedule is None:
        changed |= {"gap": new.gap, "fold": new.fold}  # they are for cron text
    if _CONDITIONS & set(tried):
        before, said = draft.conditions or NONE, new.conditions or NONE
        merged = Conditions(
            **{name: getattr(said if name in tried else before, name) for name in _CONDITIONS}
        )
        changed["conditions"] = None if merged == NONE else merged
    if has_new_task:
        changed |= {"task": new.task, "task_name": new.task_name, "retention": new.retention}
        changed["retry"] = new.retry
        if draft.task_name is None:
            changed["task_name"] = None
    return changed


def _as_written(value: object) -> object:
    """Write a time of a draft as the reader takes it."""
    if isinstance(value, timedelta):
        return f"{value // timedelta(seconds=1)}s"
    return value.isoformat() if isinstance(value, datetime) else value


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
