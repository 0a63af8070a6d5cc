"""Of what people may be alerted, and what a schedule and the settings say of that.

The ids are lines of docs/compatibility.md.
"""

import enum
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import attrs

#: What can be set of one schedule.
LONGEST_WAIT: Final = timedelta(days=366)
LARGEST_FACTOR: Final = 1_000.0
LARGEST_OUTPUT: Final = 1 << 40


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
        """Give the deadline of an instant: a time of day is the first one after it, in *zone*."""
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
        return not any(attrs.astuple(self, recurse=False))

    def over(self, far: "AlertConditions") -> "AlertConditions":
        said = attrs.asdict(self, recurse=False)
        return attrs.evolve(far, **{name: it for name, it in said.items() if it is not None})


NO_CONDITIONS: Final = AlertConditions()


#: Bounds of what can be set.
LONGEST_RUNBOOK: Final = 2_048
LARGEST: Final = 1_000_000


@attrs.frozen(kw_only=True)
class AlertPolicy:
    """Above which numbers there is an alert; 0 stands for none.

    *failed*, *warning* and *critical* are about unresolved failures, *retries* about those of one
    execution, *retry_rate* about the part of the runs that were retried.
    """

    failed: int = 5
    warning: int = 10
    critical: int = 100
    retries: int = 2
    retry_rate: float = 0.2
    runbook: str = RUNBOOK
