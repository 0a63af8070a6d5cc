"""From a `[schedules.NAME]` table to a draft."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronhare.domain.cron import Fold, UnknownZone, find_zone
from cronhare.domain.schedules.concurrency import Concurrency
from cronhare.domain.schedules.conditions import Conditions, read_conditions
from cronhare.domain.schedules.draft import Fault, ScheduleDraft, faults_of, in_effect
from cronhare.domain.schedules.schedule import DEFAULT_MISFIRE, Misfire
from cronhare.domain.schedules.task import Task, TaskRef, TaskType
from cronhare.domain.schedules.topic import NoListener, ref_of_topic
from cronhare.domain.topology import MAIN_QUEUE

from .fields import read_duration, read_fold, read_moment, read_params
from .policies import Policies
from .schema import ConcurrencyTable, MisfireTable, ScheduleTable
from .tables import read_table

#: Stands in for the number of a task that is not there.
NOWHERE = TaskRef("unknown", 0)

#: What says when a schedule runs that has no times.
_WITHOUT_TIMES: Final = ("on_start", "on_boot", "manual", "stay_alive")


def read_draft(
    name: str, table: ScheduleTable, task: Task | None, policies: Policies, faults: list[Fault]
) -> ScheduleDraft:
    """Make a draft; a field at fault gets a harmless value.

    Its row carries the retry policy of its *task*: a scheduler, which has no jobs file, needs it to
    decide about an attempt that was lost.
    """
    zone = _zone(table.timezone)
    if not _says_when(table, faults):
        ways = "schedule, every, date_time, on_boot, on_start, stay_alive or manual = true"
        faults.append(Fault("schedule", f"is missing; give {ways}"))
    fold = read_fold(table.fold)
    draft = ScheduleDraft(
        name=name,
        task=_ref(table, task),
        task_name=None if table.topic else table.task,
        topic=table.topic,
        no_listener=table.no_listener or NoListener.COMPLETE,
        schedule=table.schedule,
        date_time=read_moment(
            "date_time", table.date_time, zone, faults, fold=int(fold is Fold.SECOND)
        ),
        every=read_duration("every", table.every, faults),
        timezone=table.timezone,
        **in_effect(table.schedule, table.gap, fold),
        params=_params(table, faults),
        status=table.status,
        description=table.description,
        retention=None if task is None else task.retention,
        retry=policies.retry(table.retry, None if task is None else task.policy.retry, faults),
        misfire=_misfire(table.misfire, faults),
        overlap=table.overlap,
        concurrency=_concurrency(table.concurrency, faults),
        timeout=read_duration("timeout", table.timeout, faults),
        jitter=read_duration("jitter", table.jitter, faults) or timedelta(0),
        starts_at=read_moment("starts_at", table.starts_at, zone, faults),
        ends_at=read_moment("ends_at", table.ends_at, zone, faults),
        queue=table.queue or MAIN_QUEUE,
        stay_alive=table.stay_alive,
        conditions=_conditions(table, faults),
        user_id=table.user_id,
        group_id=table.group_id,
        language_id=table.language_id,
    )
    faults += faults_of_events(table, task)
    if table.stay_alive:
        faults += _faults_of_staying_alive(table)
    faults += faults_of(draft)
    if table.schedule is not None and table.date_time is not None and draft.date_time is None:
        faults.append(Fault("date_time", "a schedule has cron text or a date-time, not both"))
    if table.date_time is not None and fold is Fold.BOTH:
        faults.append(Fault("fold", "both is for cron text; a date-time is first or second"))
    return draft


def _faults_of_staying_alive(table: ScheduleTable) -> Iterator[Fault]:
    if table.queue is not None:
        yield Fault("queue", "a schedule with stay_alive has a queue of its own; it names none")
    for field in ("on_start", "on_boot"):
        if getattr(table, field):  # a second run beside one that a kill -9 has left to be taken up
            yield Fault(field, "stay_alive begins it whenever none runs: leave one of them out")


def _ref(table: ScheduleTable, task: Task | None) -> TaskRef:
    if table.topic is not None:
        return ref_of_topic(table.topic)
    return NOWHERE if task is None else task.ref


def _params(table: ScheduleTable, faults: list[Fault]) -> str:
    """Read the params, which are called payload where a topic is named."""
    if table.topic is None:
        return read_params({} if table.params is None else table.params, faults)
    payload = {} if table.payload is None else table.payload
    if not isinstance(payload, dict):
        faults.append(Fault("payload", "must be a table, which listeners are given as an object"))
    return read_params(payload, faults, field="payload")


def faults_of_events(table: ScheduleTable, task: Task | None) -> Iterator[Fault]:
    """Find what does not go together in a table that names a task, a topic, or both."""
    if table.topic is not None and table.task is not None:
        yield Fault("topic", "a schedule names a task or a topic, not both")
    if table.topic is not None and table.params is not None:
        yield Fault("params", "of an event are its payload: call them so")
    if table.topic is None and table.payload is not None:
        yield Fault("payload", "is for a topic; a task has params")
    is_event = task is None or task.ref.type == TaskType.EVENT
    if table.topic is None and table.no_listener is not None and not is_event:
        yield Fault("no_listener", 'is for a topic, or for a task of type = "event"')


def _conditions(table: ScheduleTable, faults: list[Fault]) -> Conditions | None:
    given = {
        "max_runs": table.max_runs,
        "expires": read_duration("expires", table.expires, faults),
        "skip_on": table.skip_on,
        "only_on": table.only_on,
        "blackout": table.blackout,
    }
    conditions, found = read_conditions(given)
    faults += [Fault(one.field, one.problem) for one in found]
    return conditions


def _says_when(table: ScheduleTable, faults: list[Fault]) -> bool:
    """Tell whether any field says when it is due, even one at fault."""
    tried = {fault.field for fault in faults} & {"schedule", "every", *_WITHOUT_TIMES}
    given = table.schedule, table.every, table.date_time
    flags = any(getattr(table, flag) for flag in _WITHOUT_TIMES)
    return bool(tried) or flags or given != (None, None, None)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return find_zone(name)
    except UnknownZone:
        return None  # `faults_of` reports it


def _misfire(value: object, faults: list[Fault]) -> Misfire:
    content = {"policy": value} if isinstance(value, str) else value
    found: list[Fault] = []
    table = read_table(MisfireTable, content, found)
    window = read_duration("window", table.window, found)
    faults += [Fault(f"misfire.{fault.field}".rstrip("."), fault.problem) for fault in found]
    return Misfire(
        policy=table.policy,
        window=DEFAULT_MISFIRE.window if window is None else window,
        cap=table.cap,
    )


def _concurrency(value: object, faults: list[Fault]) -> Concurrency | None:
    if value is None:
        return None
    found: list[Fault] = []
    table = read_table(ConcurrencyTable, value, found)
    faults += [Fault(f"concurrency.{fault.field}".rstrip("."), fault.problem) for fault in found]
    return None if found else Concurrency(key=table.key, limit=table.limit)
