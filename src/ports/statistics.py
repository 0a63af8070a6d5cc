"""What is counted for people: failures and executions by what they have in common; last results."""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

import attrs

from cronhare.domain.lifecycle.archive import FailureFilter

from .records import RanInWindow
from .schedules import Timings

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


class StatisticsPort(Protocol):
    """Counts rows, and finds what runs when.

    Groups come with the newest day first, if by day, then the largest number.
    """

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCount]:
        """Count the failures that a filter takes, by what *by* names; at most *limit* groups."""

    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCount]:
        """Count executions claimed from *since* on, before *until*, and as `failures` does.

        Without skipped ones and the system's own; not by what only failures have: `OF_FAILURES`.
        """

    def last_results(self, *, limit: int) -> ScheduleResults:
        """Tell how the runs of *limit* schedules that may run again last ended, by their ids.

        They are due again, or enabled and without times; not the system's own. Each is one look
        into an index.
        """

    def ran(self, since: datetime, until: datetime, *, limit: int) -> RanInWindow:
        """List the attempts that ran in a window, at most *limit*; not what took over a day."""

    def timings(self) -> Timings:
        """Count the users' enabled schedules with times by when they are due, and by jitter."""

    def version(self) -> str:
        """Name what `timings` rests on: another text once a schedule was written or deleted."""

    def rows(self) -> Mapping[str, int]:
        """Tell how many executions, failures, events there are at most: the span of their ids."""
