"""What happens now, and a day at a glance, as people see it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Self

import attrs

from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.nodes import is_a_scheduler
from cronhare.ports.records import Coming

from .executions import ExecutionView
from .work import NodesView

_MINUTES: Final = 60


@attrs.frozen(kw_only=True)
class FailingView:
    """A schedule with failures that nobody has dealt with: how many of the newest, and the last."""

    schedule_name: str
    failures: int
    last_id: int
    last_execution_id: int
    last_at: datetime
    reason: str
    kind: str

    @classmethod
    def of(cls, unresolved: Sequence[Archived]) -> list[Self]:
        """Group failures, which come newest first."""
        counts = Counter(row.schedule_name for row in unresolved)
        newest = dict[str, Archived]()
        for row in unresolved:
            newest.setdefault(row.schedule_name, row)
        return [
            cls(
                schedule_name=name,
                failures=counts[name],
                last_id=row.id,
                last_execution_id=row.execution_id,
                last_at=row.failed_at,
                reason=row.failed_reason,
                kind=row.kind,
            )
            for name, row in newest.items()
        ]


@attrs.frozen
class ComingMinute:
    """How many schedules are due next within a minute from now, counted from 0."""

    minute: int
    schedules: int

    @classmethod
    def of(cls, counts: Mapping[datetime, int], now: datetime) -> list[Self]:
        found = [0] * _MINUTES
        for at, count in counts.items():
            found[min(_MINUTES - 1, int((at - now).total_seconds() // 60))] += count
        return [cls(minute, count) for minute, count in enumerate(found)]


@attrs.frozen(kw_only=True)
class OverviewView:
    """What runs, is late, fails, and comes within the hour.

    *late* are schedules that no scheduler has claimed in time, *waiting* executions that no worker
    has begun. *unplanned_count* is asked where nothing comes: of those schedules, which no
    scheduler has planned, it is not known when they are due. Counts above *counted* say only that
    there are more.
    """

    now: datetime
    running: Sequence[ExecutionView]
    running_count: int
    retrying_count: int
    late: Sequence[Coming]
    late_count: int
    waiting: Sequence[ExecutionView]
    waiting_count: int
    failing: Sequence[FailingView]
    unresolved_count: int
    alert_count: int
    coming: Sequence[Coming]
    unplanned_count: int
    coming_minutes: Sequence[ComingMinute]
    latest: Sequence[ExecutionView]
    nodes: NodesView
    counted: int

    @property
    def is_planned_soon(self) -> bool:
        """Whether a scheduler is there, which plans what is not."""
        return any(is_a_scheduler(node.role) and not node.silent for node in self.nodes.nodes)

    @property
    def coming_count(self) -> int:
        return sum(each.schedules for each in self.coming_minutes)
