"""`PATCH /schedulers/{id}`: from what is to be other to a draft."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from cronhare.domain.reading import Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog, NoListener
from cronhare.domain.schedules.conditions import NONE, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, faults_of
from cronhare.domain.schedules.task import Task
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.schedules import StoredSchedule

from .scheduler_bodies import (
    AS_IN_A_FILE,
    OF_TASK,
    TASK_AND_TOPIC,
    WITHOUT_TIMES,
    NewScheduler,
    draft_of,
    each_once,
    fields_tried,
    find_task,
)


@attrs.frozen(kw_only=True)
class SchedulerPatch(NewScheduler):
    """What is to be other than it is: a merge patch (RFC 7396).

    What is left out stays, what is null gets its default. A schedule keeps its name. A task takes
    the place of a topic, and a topic that of a task.
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
    new = draft_of(stored.name, body, task, faults, policy=policy, kept=kept)
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
    """Give the topic that there is to be: a task that is *said* stands in its place."""
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
    """Tell whether it is ever begun by itself."""
    return draft.has_times or draft.stay_alive


def _changes(
    draft: ScheduleDraft, new: ScheduleDraft, tried: Collection[str], *, runs_another: bool
) -> dict[str, Any]:
    """Give the fields of a draft that a patch changes, as they are in *new*."""
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
