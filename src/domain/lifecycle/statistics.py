"""Statistics: how many runs there were, how many failed, by day, type or reason.

S0.13 in docs/compatibility.md.
"""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

#: The original's weekly report looks back so far, and has so many lines at the most.
WEEK: Final = timedelta(days=7)
MOST_GROUPS: Final = 100

#: A reason counts by so many of its first characters: the rest is mostly numbers and paths.
REASON_LENGTH: Final = 200


class By(enum.StrEnum):
    """What rows have in common that are counted together; a day is one of UTC."""

    DAY = "day"
    TYPE = "type"
    TASK = "task"
    SCHEDULE = "schedule"
    QUEUE = "queue"
    REASON = "reason"
    CLASS = "class"


#: The original's statistics: per day and type.
DAY_AND_TYPE: Final = (By.DAY, By.TYPE)

#: What is known of failures alone.
OF_FAILURES: Final = frozenset({By.REASON, By.CLASS})

#: What rows have in common: a text for each `By`.
Group = Mapping[By, str]


@attrs.frozen(kw_only=True)
class FailureCount:
    """How many failures of a group the archive has; *unresolved* ones wait for a person."""

    group: Group
    failures: int
    quarantined: int
    unresolved: int
    mean_retries: float
    first_at: datetime | None
    last_at: datetime | None


@attrs.frozen(kw_only=True)
class ExecutionCount:
    """How many executions of a group there were, without those that were skipped.

    *failed* ones are quarantined, too. *retried* ones had an attempt that ended badly.
    """

    group: Group
    total: int
    succeeded: int
    failed: int
    retried: int
    mean_attempts: float

    @property
    def retry_rate(self) -> float:
        """The part that was retried, 0 to 1."""
        return self.retried / self.total if self.total else 0.0


@attrs.frozen(kw_only=True)
class ScheduleResult:
    """When a schedule last succeeded, and last failed for good; None if it has not of late."""

    schedule: str
    succeeded_at: datetime | None
    failed_at: datetime | None


@attrs.frozen(kw_only=True)
class ScheduleResults:
    """The *results* of schedules that may run again, those made first; *unread* are the others."""

    results: Sequence[ScheduleResult]
    unread: int
