"""Of what people may be alerted, and what a schedule says of that."""

import enum
from datetime import datetime, time, timedelta
from typing import Final, Self
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
