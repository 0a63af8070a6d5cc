"""Of what people may be alerted, and what a schedule and the settings say of that.

The ids are lines of docs/compatibility.md.
"""

import enum
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import Annotated, Any, Final, NamedTuple
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

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
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


class AlertSeverity(enum.StrEnum):
    """How bad an alert is, the worst first: the original's words (S0.9, S2.7)."""

    CRITICAL = "critical"
    HIGH = "high"
    WARNING = "warning"


class About(NamedTuple):
    """How bad an alert is, what it is called in a list, and where to read on."""

    severity: AlertSeverity
    title: str
    runbook: str


RUNBOOK: Final = "docs/operators.md: What failed, and of which schedule?"
_WAITING: Final = "docs/operators.md: Why is it stuck?"
_WORKERS: Final = "docs/operators.md: Who works on it?"
_NOT_RUN: Final = "docs/operators.md: Why did it not run?"
_OUTPUT: Final = "docs/alerts.md: Of one schedule"
_CRITICAL, _HIGH, _WARNING = AlertSeverity

#: What is the same of each alert by a rule.
ABOUT: Final[Mapping[str, About]] = {
    Rule.FAILED: About(_HIGH, "Failures wait for somebody", RUNBOOK),
    Rule.GROWING: About(_WARNING, "Many failures wait for somebody", RUNBOOK),
    Rule.CRITICAL: About(_CRITICAL, "Very many failures wait for somebody", RUNBOOK),
    Rule.RETRIES: About(_HIGH, "An execution is retried again and again", _WAITING),
    Rule.RETRY_RATE: About(_HIGH, "Many runs are retried", RUNBOOK),
    Rule.SCHEDULER: About(_CRITICAL, "No scheduler claims what is due", _WORKERS),
    Rule.UNSENT: About(_CRITICAL, "Runs cannot be handed to the broker", _WAITING),
    Rule.QUEUE: About(_CRITICAL, "No worker serves a queue", _WORKERS),
    Rule.NODE: About(_HIGH, "A node is silent", _WORKERS),
    Rule.NOT_STARTED: About(_HIGH, "Not begun in time", _NOT_RUN),
    Rule.NOT_FINISHED: About(_HIGH, "Not ended in time", _WAITING),
    Rule.TOO_LONG: About(_WARNING, "It takes longer than usual", _WAITING),
    Rule.TOO_SHORT: About(_WARNING, "It wrote less than it is to", _OUTPUT),
}


@attrs.frozen(kw_only=True)
class Deadline:
    """How long *after* it was due something is to be done, or by which *time_of_day* then.

    One of neither is false: a schedule's `off`, against what its defaults say.
    """

    after: timedelta = timedelta(0)
    time_of_day: time | None = None

    def __bool__(self) -> bool:
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
        hour, minute = self.time_of_day.hour, self.time_of_day.minute
        by = local.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if by <= local:
            by += timedelta(days=1)
        return by.astimezone(due_at.tzinfo)


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
        return not any(attrs.astuple(self, recurse=False))

    def over(self, far: "AlertConditions") -> "AlertConditions":
        """Let what is said nearer go before."""
        said = attrs.asdict(self, recurse=False)
        return attrs.evolve(far, **{name: it for name, it in said.items() if it is not None})


NO_CONDITIONS: Final = AlertConditions()


def _deadline(value: object) -> Deadline:
    if value == _OFF:
        return Deadline()
    text = value if isinstance(value, str) else ""
    if _TIME.fullmatch(text):
        return Deadline(time_of_day=time.fromisoformat(text))
    with suppress(DurationInvalid):
        after = parse_duration(text)
        if timedelta(0) < after <= LONGEST_WAIT:
            return Deadline(after=after)
    allowed = f'a time after it is due such as "5m", at most {say_duration(LONGEST_WAIT)}'
    others = 'nor a time of day "06:30", nor off'
    raise ValueError(f"{written(value)} is neither {allowed}, {others}")


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
    text = str(value) if isinstance(value, str | int) else ""
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
