"""`[schedules.NAME]`: the table, and the draft that it becomes."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

import attrs
from msgspec import Meta

from cronhare.domain.addresses import WebAddress
from cronhare.domain.cron import Fold, Gap, UnknownZone, find_zone
from cronhare.domain.reading import A_DURATION, Duration, Fault, Reads, read_whole, whole_number
from cronhare.domain.schedules.catalog import NoListener, ref_of_topic
from cronhare.domain.schedules.conditions import (
    NONE,
    Blackouts,
    Calendars,
    Conditions,
    MaxRuns,
    PauseAfter,
    parse_expiry,
)
from cronhare.domain.schedules.draft import ScheduleDraft, faults_of, in_effect
from cronhare.domain.schedules.schedule import (
    DEFAULT_MISFIRE,
    DEFAULT_OVERLAP,
    DEFAULT_ZONE,
    OWNER_FIELDS,
    Concurrency,
    Misfire,
    OverlapPolicy,
)
from cronhare.domain.schedules.task import LARGEST_NUMBER, Task, TaskRef, TaskType
from cronhare.domain.topology import MAIN_QUEUE

from .fields import JsonText, SomeTime, Topic, read_moment
from .targets import EventsTable
from .tasks import Policies

#: Stands in for the number of a task that is not there.
NOWHERE = TaskRef("unknown", 0)

#: What says when a schedule runs that has no times.
_WITHOUT_TIMES: Final = ("on_start", "on_boot", "manual", "stay_alive")

#: The fields that a draft has as they were read.
_SAME: Final = (
    "topic",
    "schedule",
    "every",
    "timezone",
    "status",
    "description",
    "overlap",
    "concurrency",
    "timeout",
    "stay_alive",
    *OWNER_FIELDS,
)


def _fold(value: str | int) -> Fold:
    return (Fold.FIRST, Fold.SECOND)[value] if isinstance(value, int) else Fold(value)


def _secret_address(url: object) -> WebAddress:
    """Read an address that is quoted nowhere, whatever it is."""
    return WebAddress.parse(url if isinstance(url, str) else "")


def _misfire(value: object) -> Misfire:
    return read_whole(Misfire, {"policy": value} if isinstance(value, str) else value)


# `Annotated` names what is written.
if TYPE_CHECKING:
    _Expiry = timedelta
    _Fold = Fold
else:
    _Expiry = Annotated[str, A_DURATION, Reads(parse_expiry)]
    _Fold = Annotated[Literal["first", "second", "both", 0, 1], Reads(_fold)]

QueueName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9_][a-z0-9._-]{0,62}\Z",
        description="a queue's name: a-z, 0-9, dot, dash and underscore, at most 63",
    ),
]
_OwnerNumber = Annotated[int, whole_number(range(LARGEST_NUMBER + 1))]


@attrs.frozen(kw_only=True)
class ScheduleFields:
    """What says when a schedule is due, how it is run, and for whom: in a file, and in a request.

    Moments are read with the zone, a retry policy with those farther away.
    """

    topic: Topic | None = None
    no_listener: NoListener | None = None
    payload: JsonText = None
    schedule: str | None = None
    date_time: Any = None
    every: Duration | None = None
    gap: Gap = Gap.AFTER
    fold: _Fold = Fold.FIRST
    timezone: str = DEFAULT_ZONE
    params: JsonText = None
    status: bool = True
    description: str | None = None
    retry: Any = None
    misfire: Annotated[Any, Reads(_misfire)] = None
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    concurrency: Annotated[Any, Reads(partial(read_whole, Concurrency))] = None
    timeout: SomeTime | None = None
    jitter: Duration | None = None
    starts_at: Any = None
    ends_at: Any = None
    queue: QueueName | None = None
    stay_alive: bool = False
    max_runs: MaxRuns | None = None
    pause_after: PauseAfter | None = None
    expires: _Expiry | None = None
    skip_on: Calendars = ()
    only_on: Calendars = ()
    blackout: Blackouts = ()
    user_id: _OwnerNumber | None = None
    group_id: _OwnerNumber | None = None
    language_id: _OwnerNumber | None = None


@attrs.frozen(kw_only=True)
class ScheduleTable(ScheduleFields, EventsTable):
    """`[schedules.NAME]`: what is due when."""

    ping: Annotated[Any, Reads(_secret_address)] = None
    task: str | None = None
    on_start: bool = False
    on_boot: bool = False
    manual: bool = False


def faults_of_table(table: ScheduleTable, tried: Collection[str]) -> Iterator[Fault]:
    """Find what does not go together in a file; fields at fault have been *tried*."""
    says_when = (table.schedule, table.every, table.date_time) != (None, None, None)
    says_when = says_when or any(getattr(table, flag) for flag in _WITHOUT_TIMES)
    if not says_when and {"schedule", "every", *_WITHOUT_TIMES}.isdisjoint(tried):
        ways = "schedule, every, date_time, on_boot, on_start, stay_alive or manual = true"
        yield Fault("schedule", f"is missing; give {ways}")
    if table.topic is not None and table.task is not None:
        yield Fault("topic", "a schedule names a task or a topic, not both")
    for field in ("on_start", "on_boot"):  # a second run beside one that a kill -9 has left
        if table.stay_alive and getattr(table, field):
            yield Fault(field, "stay_alive begins it whenever none runs: leave one of them out")


def read_draft(
    name: str, table: ScheduleFields, task: Task | None, policies: Policies, faults: list[Fault]
) -> ScheduleDraft:
    """Make a draft; a field at fault gets a harmless value.

    Its row carries the retry policy of its *task*: a scheduler, which has no jobs file, needs it to
    decide about an attempt that was lost.
    """
    zone, farther = _zone(table.timezone), None if task is None else task.policy.retry
    second = int(table.fold is Fold.SECOND)
    conditions = Conditions(
        **{each: getattr(table, each) for each in attrs.fields_dict(Conditions)}
    )
    params = table.params if table.topic is None else table.payload
    draft = ScheduleDraft(
        name=name,
        task=NOWHERE if task is None else task.ref,
        task_name=None if task is None else task.name,
        no_listener=table.no_listener or NoListener.COMPLETE,
        date_time=read_moment("date_time", table.date_time, zone, faults, fold=second),
        **in_effect(table.schedule, table.gap, table.fold),
        params="{}" if params is None else params,
        retention=None if task is None else task.retention,
        retry=policies.retry(table.retry, farther, faults),
        misfire=table.misfire or DEFAULT_MISFIRE,
        jitter=table.jitter or timedelta(0),
        starts_at=read_moment("starts_at", table.starts_at, zone, faults),
        ends_at=read_moment("ends_at", table.ends_at, zone, faults),
        queue=table.queue or MAIN_QUEUE,
        conditions=None if conditions == NONE else conditions,
        **{field: getattr(table, field) for field in _SAME},
    )
    if table.topic is not None:
        draft = attrs.evolve(draft, task=ref_of_topic(table.topic), task_name=None)
    faults += _faults_of_events(table, task)
    if table.stay_alive and table.queue is not None:
        why = "a schedule with stay_alive has a queue of its own; it names none"
        faults.append(Fault("queue", why))
    faults += faults_of(draft)
    if table.schedule is not None and table.date_time is not None and draft.date_time is None:
        faults.append(Fault("date_time", "a schedule has cron text or a date-time, not both"))
    if table.date_time is not None and table.fold is Fold.BOTH:
        faults.append(Fault("fold", "both is for cron text; a date-time is first or second"))
    return draft


def _faults_of_events(table: ScheduleFields, task: Task | None) -> Iterator[Fault]:
    if table.topic is not None and table.params is not None:
        yield Fault("params", "of an event are its payload: call them so")
    if table.topic is None and table.payload is not None:
        yield Fault("payload", "is for a topic; a task has params")
    if table.topic is not None and not (table.payload or "{").lstrip().startswith("{"):
        text = "must be a table, which listeners are given as an object"
        yield Fault("payload", text)
    is_event = task is None or task.ref.type == TaskType.EVENT
    if table.topic is None and table.no_listener is not None and not is_event:
        yield Fault("no_listener", 'is for a topic, or for a task of type = "event"')


def _zone(name: str) -> ZoneInfo | None:
    try:
        return find_zone(name)
    except UnknownZone:
        return None  # `faults_of` reports it
