"""Statistics, as people look at them."""

from datetime import datetime
from typing import Self

import attrs

from cronhare.domain.lifecycle.statistics import By, ExecutionCount, FailureCount, Group

#: Digits behind the point of a mean or a rate.
DIGITS = 3


@attrs.frozen(kw_only=True)
class GroupView:
    """What rows have in common that were counted together; None for what they were not grouped by.

    *date* is a day of UTC, as the original has it.
    """

    date: str | None
    type: str | None
    task: str | None
    schedule_name: str | None
    queue: str | None


@attrs.frozen(kw_only=True)
class FailureCountView(GroupView):
    """Failures of a group; *failed_count* and *avg_retries* are the original's."""

    failed_reason: str | None
    error_class: str | None
    failed_count: int
    avg_retries: float
    quarantined: int
    unresolved: int
    first_at: datetime | None
    last_at: datetime | None

    @classmethod
    def of(cls, counted: FailureCount) -> Self:
        """Show what was counted."""
        group = counted.group
        return cls(
            **_shown(group),
            failed_reason=group.get(By.REASON),
            error_class=group.get(By.CLASS),
            failed_count=counted.failures,
            avg_retries=round(counted.mean_retries, DIGITS),
            quarantined=counted.quarantined,
            unresolved=counted.unresolved,
            first_at=counted.first_at,
            last_at=counted.last_at,
        )


@attrs.frozen(kw_only=True)
class ExecutionCountView(GroupView):
    """Executions of a group; see `ExecutionCount`."""

    total: int
    succeeded: int
    failed: int
    retried: int
    retry_rate: float
    avg_attempts: float

    @classmethod
    def of(cls, counted: ExecutionCount) -> Self:
        """Show what was counted."""
        return cls(
            **_shown(counted.group),
            total=counted.total,
            succeeded=counted.succeeded,
            failed=counted.failed,
            retried=counted.retried,
            retry_rate=round(counted.retry_rate, DIGITS),
            avg_attempts=round(counted.mean_attempts, DIGITS),
        )


def _shown(group: Group) -> dict[str, str | None]:
    return {
        "date": group.get(By.DAY),
        "type": group.get(By.TYPE),
        "task": group.get(By.TASK),
        "schedule_name": group.get(By.SCHEDULE),
        "queue": group.get(By.QUEUE),
    }
