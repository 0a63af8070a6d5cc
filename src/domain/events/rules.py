"""Of what people may be alerted, and what a schedule says of that."""

import enum
import re
from datetime import datetime, time, timedelta
from typing import Annotated, Any, Final, Self
from zoneinfo import ZoneInfo

import attrs

from ..reading import Reads, written
from ..texts.moments import DurationInvalid, parse_duration, say_duration

#: What can be set of one schedule.
LONGEST_WAIT: Final = timedelta(days=366)
LARGEST_FACTOR: Final = 1_000.0
LARGEST_OUTPUT: Final = 1 << 40

#: Against what is said farther away.
_OFF: Final = "off"

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([kKMG]i?)?B?")
_POWERS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3}


class Rule(enum.StrEnum):
    """What may be alerted of: of the ledger, of what works on it, and of one schedule."""

    FAILED = "failed"
    GROWING = "growing"
    CRITICAL = "critical"
    RETRIES = "retries"
    RETRY_RATE = "retry-rate"

    SCHEDULER = "scheduler"
    UNSENT = "unsent"
    QUEUE = "queue"
    NODE = "node"

    NOT_STARTED = "not-started"
    NOT_FINISHED = "not-finished"
    TOO_LONG = "too-long"
    TOO_SHORT = "too-short"


@attrs.frozen(kw_only=True)
class Deadline:
    """How long *after* it was due something is to be done, or by which *time_of_day* then.

    Neither stands for no deadline: a schedule's `off`, against what its defaults say.
    """

    after: timedelta = timedelta(0)
    time_of_day: time | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is one."""
        return self.time_of_day is not None or self.after > timedelta(0)

    def of(self, due_at: datetime, zone: ZoneInfo) -> datetime:
        """Give the deadline of an instant: a time of day is the first one after it, in *zone*.

        >>> due = datetime(2026, 3, 2, 22, 0, tzinfo=ZoneInfo("UTC"))
        >>> str(Deadline(time_of_day=time(6, 30)).of(due, ZoneInfo("Europe/Berlin")))
        '2026-03-03 05:30:00+00:00'
        """
        if self.time_of_day is None:
            return due_at + self.after
        local = due_at.astimezone(zone)
        by = local.replace(
            hour=self.time_of_day.hour, minute=self.time_of_day.minute, second=0, microsecond=0
        )
        if by <= local:
            by += timedelta(days=1)
        return by.astimezone(due_at.tzinfo)

    def __str__(self) -> str:
        if self.time_of_day is not None:
            return f"{self.time_of_day:%H:%M}"
        return str(self.after)


@attrs.frozen(kw_only=True)
class AlertConditions:
    """When a schedule's runs alert; None where nothing is said, and 0 for never.

    *longer_than_usual* is a multiple of the median of its last runs, *least_output* are bytes.
    """

    not_started_by: Deadline | None = None
    not_finished_by: Deadline | None = None
    longer_than_usual: float | None = None
    least_output: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing alerts."""
        deadlines = (self.not_started_by, self.not_finished_by)
        has_deadline = any(each is not None and each.is_set for each in deadlines)
        return not (has_deadline or self.longer_than_usual or self.least_output)

    def over(self, far: "AlertConditions") -> Self:
        """Let what is said nearer go before."""
        said = {
            name: getattr(far, name) if getattr(self, name) is None else getattr(self, name)
            for name in attrs.fields_dict(AlertConditions)
        }
        return attrs.evolve(self, **said)


NO_CONDITIONS: Final = AlertConditions()


def _deadline(value: object) -> Deadline:
    if value == _OFF:
        return Deadline()
    if isinstance(value, str) and (found := _TIME.fullmatch(value)):
        return Deadline(time_of_day=time(int(found[1]), int(found[2])))
    try:
        after = parse_duration(value) if isinstance(value, str) else timedelta(0)
    except DurationInvalid:
        after = timedelta(0)
    if not timedelta(0) < after <= LONGEST_WAIT:
        allowed = f'a time after it is due such as "5m", at most {say_duration(LONGEST_WAIT)}'
        others = 'nor a time of day "06:30", nor off'
        raise ValueError(f"{written(value)} is neither {allowed}, {others}")
    return Deadline(after=after)


def _factor(value: object) -> float:
    if value == _OFF:
        return 0.0
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 1 < value <= LARGEST_FACTOR:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    most = f"{LARGEST_FACTOR:,.0f}"
    raise ValueError(f"{written(value)} is no number above 1, at most {most}, nor off")


def _size(value: object) -> int:
    if value == _OFF:
        return 0
    text = "" if isinstance(value, bool) or not isinstance(value, str | int) else str(value)
    if found := _SIZE.fullmatch(text):
        unit = found[2] or ""
        base = 1_024 if unit.endswith("i") else 1_000
        size: int = int(found[1]) * base ** _POWERS[unit[:1]]
        if 0 < size <= LARGEST_OUTPUT:
            return size
    raise ValueError(f'{written(value)} is no size such as 100, "100B", "2kB" or "1MiB", nor off')


#: The kinds of what people write of these.
DeadlineAsWritten = Annotated[Any, Reads(_deadline)]
FactorAsWritten = Annotated[Any, Reads(_factor)]
SizeAsWritten = Annotated[Any, Reads(_size)]


RUNBOOK: Final = "docs/operators.md: What failed, and of which schedule?"

LONGEST_RUNBOOK: Final = 2_048

#: Bounds of what can be set, and what is set by default.
LARGEST: Final = 1_000_000
DEFAULT_FAILED, DEFAULT_WARNING, DEFAULT_CRITICAL = 5, 10, 100
DEFAULT_RETRIES: Final = 2
DEFAULT_RETRY_RATE: Final = 0.2


@attrs.frozen(kw_only=True)
class AlertPolicy:
    """Above which numbers there is an alert; 0 stands for none.

    *failed*, *warning* and *critical* are about unresolved failures, *retries* about those of one
    execution, *retry_rate* about the part of the runs that were retried.
    """

    failed: int = DEFAULT_FAILED
    warning: int = DEFAULT_WARNING
    critical: int = DEFAULT_CRITICAL
    retries: int = DEFAULT_RETRIES
    retry_rate: float = DEFAULT_RETRY_RATE
    runbook: str = RUNBOOK
