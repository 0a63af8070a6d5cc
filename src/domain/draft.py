"""A schedule as people write it, and the one place that understands or refuses it."""

from datetime import datetime, timedelta

import attrs

from .cron import CronExpression, CronExpressionError, UnknownZone, find_zone
from .params import fault_of_params
from .retry import RetryPolicy
from .schedule import ByHand, Misfire, Once, OverlapPolicy, Recurring, Schedule
from .task import TaskRef
from .topology import MAIN_QUEUE, checked_queue


@attrs.frozen
class Fault:
    """One thing that is wrong with one field."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class ScheduleInvalid(ValueError):
    """A schedule that cannot be; *faults* names everything that is wrong."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        """Keep the faults, and say them."""
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


@attrs.frozen(kw_only=True)
class ScheduleDraft:
    """A schedule as somebody wants it to be: what a row says, already checked.

    *schedule* is cron text, *date_time* an instant in UTC; with neither it runs by hand.
    *params* is canonical JSON text.
    """

    name: str
    task: TaskRef
    schedule: str | None = None
    date_time: datetime | None = None
    timezone: str = "UTC"
    params: str = "{}"
    status: bool = True
    description: str | None = None
    retry: RetryPolicy | None = None
    misfire: Misfire = attrs.field(factory=Misfire)
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    timeout: timedelta | None = None
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    queue: str = MAIN_QUEUE


def faults_of(draft: ScheduleDraft) -> tuple[Fault, ...]:
    """Name everything for which a draft would be refused."""
    _, faults = _judge(draft)
    return faults


def understand(draft: ScheduleDraft, *, id: int, changed_at: datetime) -> Schedule:  # noqa: A002
    """Turn a draft into a schedule.

    Raises:
        ScheduleInvalid: with every fault at once.
    """
    timing, faults = _judge(draft)
    if faults:
        raise ScheduleInvalid(faults)
    return Schedule(
        id=id,
        name=draft.name,
        task=draft.task,
        timing=timing,
        changed_at=changed_at,
        params=draft.params,
        enabled=draft.status,
        retry=draft.retry,
        misfire=draft.misfire,
        overlap=draft.overlap,
        timeout=draft.timeout,
        jitter=draft.jitter,
        starts_at=draft.starts_at,
        ends_at=draft.ends_at,
        queue=draft.queue,
    )


def _judge(draft: ScheduleDraft) -> tuple[Recurring | Once | ByHand, tuple[Fault, ...]]:
    faults: list[Fault] = []
    timing = _timing(draft, faults)
    starts_at, ends_at = draft.starts_at, draft.ends_at
    if starts_at is not None and ends_at is not None and starts_at > ends_at:
        faults.append(Fault("ends_at", "lies before starts_at"))
    if draft.timeout is not None and draft.timeout <= timedelta(0):
        faults.append(Fault("timeout", "must be longer than nothing"))
    if (too_large := fault_of_params(draft.params)) is not None:
        faults.append(Fault("params", too_large))
    try:
        checked_queue(draft.queue)
    except ValueError as error:
        faults.append(Fault("queue", str(error)))
    return timing, tuple(faults)


def _timing(draft: ScheduleDraft, faults: list[Fault]) -> Recurring | Once | ByHand:
    if draft.schedule is not None and draft.date_time is not None:
        faults.append(Fault("date_time", "a schedule has cron text or a date-time, not both"))
    try:
        zone = find_zone(draft.timezone)
    except UnknownZone as error:
        faults.append(Fault("timezone", str(error)))
        zone = None
    expression = None if draft.schedule is None else _expression(draft.schedule, faults)
    if expression is not None and zone is not None:
        return Recurring(expression, zone)
    return ByHand() if draft.date_time is None else Once(draft.date_time)


def _expression(text: str, faults: list[Fault]) -> CronExpression | None:
    try:
        expression = CronExpression.parse(text)
    except CronExpressionError as error:
        faults.append(Fault("schedule", str(error)))
        return None
    if not expression.fires:
        faults.append(Fault("schedule", f"never fires: {expression.why_never}"))
    return expression
