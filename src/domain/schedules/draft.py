"""A schedule as people write it, and the one place that validates it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from ..cron import (
    CronExpression,
    CronExpressionError,
    Fold,
    Gap,
    UnknownZone,
    clock_changes,
    find_zone,
)
from ..reading import Fault, Invalid
from ..retries.policy import RetryPolicy
from ..texts.printable import echo
from ..topology import MAIN_QUEUE, checked_queue
from .catalog import NoListener, fault_of_topic
from .conditions import Conditions
from .keys import is_standalone, standalone_queue
from .schedule import (
    DEFAULT_MISFIRE,
    DEFAULT_OVERLAP,
    DEFAULT_ZONE,
    ByHand,
    Concurrency,
    Every,
    Misfire,
    Once,
    OverlapPolicy,
    Recurring,
    Schedule,
    Timing,
    fault_of_period,
    faults_of_key,
)
from .skips import Pause
from .task import ClassRetention, TaskRef, fault_of_params


class ScheduleInvalid(Invalid):
    """A draft is refused; *faults* has everything that is wrong with it."""


@attrs.frozen(kw_only=True)
class ScheduleDraft:
    """A schedule as a person or a file wants it; its values have the right types.

    *task_name* is the task's name in the jobs file of the draft; with a *topic* there is none, the
    *task* is the topic's number, and *params* are the event's payload. *schedule* is cron text,
    *date_time* an instant in UTC, *every* an interval; with none of them it runs by hand. *gap* and
    *fold* are for cron text. *params* is canonical JSON text.
    The owner's numbers (see `ScheduleOwner`) are None where nothing is said: a row keeps its own.
    """

    name: str
    task: TaskRef
    task_name: str | None = None
    topic: str | None = None
    no_listener: NoListener = NoListener.COMPLETE
    schedule: str | None = None
    date_time: datetime | None = None
    every: timedelta | None = None
    timezone: str = DEFAULT_ZONE
    gap: Gap = Gap.AFTER
    fold: Fold = Fold.FIRST
    params: str = "{}"
    status: bool = True
    description: str | None = None
    retry: RetryPolicy | None = None
    retention: ClassRetention | None = None
    misfire: Misfire = DEFAULT_MISFIRE
    overlap: OverlapPolicy = DEFAULT_OVERLAP
    concurrency: Concurrency | None = None
    timeout: timedelta | None = None
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    queue: str = MAIN_QUEUE
    stay_alive: bool = False
    conditions: Conditions | None = None
    user_id: int | None = None
    group_id: int | None = None
    language_id: int | None = None

    @property
    def has_times(self) -> bool:
        return (self.schedule, self.date_time, self.every) != (None, None, None)

    @property
    def calendars(self) -> frozenset[str]:
        return frozenset(self.conditions.calendars if self.conditions else ())

    @property
    def runs_on(self) -> str:
        return standalone_queue(self.name) if self.stay_alive else self.queue


_RENAMED: Final = {"status": "enabled"}
#: The schedule's name of each field of a draft that it keeps.
_KEPT: Final = {
    field.name: kept
    for field in attrs.fields(ScheduleDraft)
    if (kept := _RENAMED.get(field.name, field.name)) in Schedule.__struct_fields__
}


_DEFAULTS: Final = {field.name: field.default for field in msgspec.structs.fields(Schedule)}


def faults_of(draft: ScheduleDraft) -> tuple[Fault, ...]:
    return _validate(draft)[1]


def compile_schedule(
    draft: ScheduleDraft,
    *,
    id: int,  # noqa: A002
    changed_at: datetime,
    source: str | None = None,
) -> Schedule:
    """Turn a draft into a schedule; `ScheduleInvalid` has every fault at once."""
    timing, faults = _validate(draft)
    if faults:
        raise ScheduleInvalid(faults)
    fields = {kept: getattr(draft, field) for field, kept in _KEPT.items()}
    if draft.stay_alive:
        fields |= {"queue": draft.runs_on, "overlap": draft.overlap.alone}
    return Schedule(id=id, timing=timing, changed_at=changed_at, source=source, **fields)


def kept_fields(draft: Mapping[str, Any]) -> dict[str, Any]:
    """Give a draft's fields that a schedule has, without its defaults: that is twice as fast."""
    return {
        kept: value
        for field, value in draft.items()
        if (kept := _KEPT.get(field)) is not None
        and value != _DEFAULTS.get(kept, msgspec.NODEFAULT)
    }


def in_effect(schedule: str | None, gap: Gap, fold: Fold) -> dict[str, Any]:
    """Give the fields of a draft that say what a change of the clock does: they need cron text."""
    return {
        "gap": Gap.AFTER if schedule is None else gap,
        "fold": Fold.FIRST if schedule is None else fold,
    }


#: The fields of a draft of which its times are made.
_TIMES: Final = (
    "name", "schedule", "date_time", "every", "timezone", "gap", "fold", "starts_at", "ends_at",
)  # fmt: skip


def validate_times(
    *,
    name: str | None,
    schedule: str | None,
    date_time: datetime | None,
    every: timedelta | None,
    timezone: str,
    gap: Gap,
    fold: Fold,
    starts_at: datetime | None,
    ends_at: datetime | None,
) -> tuple[Timing, tuple[Fault, ...]]:
    """Build the timing of a draft, and list the faults of its times; *name* is what `H` needs."""
    faults: list[Fault] = []
    if schedule is not None and date_time is not None:
        faults.append(Fault("date_time", "a schedule has cron text or a date-time, not both"))
    if every is not None and (schedule, date_time) != (None, None):
        text = "a schedule has an interval, or cron text or a date-time, not both"
        faults.append(Fault("every", text))
    if every is not None and (problem := fault_of_period(every)) is not None:
        faults.append(Fault("every", problem))
    zone = expression = None
    try:
        zone = find_zone(timezone)
    except UnknownZone as error:
        faults.append(Fault("timezone", str(error)))
    try:
        expression = None if schedule is None else CronExpression.parse(schedule, name)
    except CronExpressionError as error:
        faults.append(Fault("schedule", str(error)))
    if expression is not None and not expression.fires:
        faults.append(Fault("schedule", f"never fires: {expression.why_never}"))
    if starts_at is not None and ends_at is not None and starts_at > ends_at:
        faults.append(Fault("ends_at", "lies before starts_at"))
    if expression is not None and zone is not None:
        return Recurring(expression, zone, clock_changes(gap, fold)), tuple(faults)
    if every is not None and not faults:
        return Every(every), ()
    return ByHand() if date_time is None else Once(date_time), tuple(faults)


def validate_run_options(
    *, timeout: timedelta | None, queue: str, concurrency: Concurrency | None
) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if timeout is not None and timeout <= timedelta(0):
        faults.append(Fault("timeout", "must be longer than nothing"))
    if is_standalone(queue):
        text = "is that of a schedule with stay_alive, and no other's"
        faults.append(Fault("queue", f"{echo(queue)} {text}"))
    try:
        checked_queue(queue)
    except ValueError as error:
        faults.append(Fault("queue", str(error)))
    if concurrency is not None:
        faults += [Fault("concurrency.key", why) for why in faults_of_key(concurrency.key)]
    return tuple(faults)


def _validate(draft: ScheduleDraft) -> tuple[Timing, tuple[Fault, ...]]:
    timing, faults = validate_times(**{field: getattr(draft, field) for field in _TIMES})
    faults += validate_run_options(
        timeout=draft.timeout, queue=draft.queue, concurrency=draft.concurrency
    )
    if draft.topic is not None and (problem := fault_of_topic(draft.topic)) is not None:
        faults += (Fault("topic", problem),)
    if (too_large := fault_of_params(draft.params)) is not None:
        faults += (Fault("params" if draft.topic is None else "payload", too_large),)
    return timing, faults


@attrs.frozen
class Disabled:
    """A person has switched it off."""

    def __str__(self) -> str:
        return "disabled"


#: What keeps a schedule from beginning by itself; as a text it goes on after "it is".
Hindrance: TypeAlias = Disabled | Pause


def hindrance(draft: ScheduleDraft, pause: Pause | None, *, now: datetime) -> Hindrance | None:
    """Say what keeps a schedule from beginning by itself at *now*; None if nothing does."""
    if not draft.status:
        return Disabled()
    return pause if pause is not None and pause.is_on(now) else None
