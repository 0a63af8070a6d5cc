"""What happens now, and a day at a glance."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, Self

import attrs

from cronhare.application.reports.load import DayLoad, day_load
from cronhare.application.reports.overlaps import LaneBy, Overlaps, overlaps
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import UNRESOLVED, Archived
from cronhare.domain.nodes import is_a_scheduler
from cronhare.ports.inspection import OVERDUE_AFTER
from cronhare.ports.records import (
    Coming,
    ExecutionFilter,
    OverviewPort,
    RecordsPort,
    Run,
    TimelineStorePort,
)
from cronhare.ports.schedules import TimingStorePort

from ..views.executions import ExecutionView
from ..views.work import NodesView
from .queries import Queries

#: So much of each kind is listed, and so much is counted.
LISTED: Final = 12
COUNTED: Final = 1_000

#: So many failures, the newest, are grouped by their schedules.
_GROUPED: Final = 100

_UNDER_WAY: Final = frozenset({State.RUNNING, State.RETRYING})

#: So far ahead it is looked.
AHEAD: Final = timedelta(hours=1)

#: So far back schedules are looked for that nobody has claimed.
_BACK: Final = timedelta(days=36_500)

#: So many runs of a schedule are on its line in a list.
SPARKS: Final = 20


_MINUTES: Final = 60

#: Attempts that one timeline is made of, and its lanes.
MOST_ATTEMPTS: Final = 10_000
MOST_LANES: Final = 40

#: Days whose load is remembered while no schedule changes.
_REMEMBERED: Final = 8


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


@attrs.define(kw_only=True, eq=False)
class Overview:
    """Answers questions, and changes nothing.

    *now* is the ledger's clock.
    """

    _overview: OverviewPort
    _records: RecordsPort
    _queries: Queries
    _timings: TimingStorePort
    _timeline: TimelineStorePort
    _now: Callable[[], datetime]
    _lock: Lock = attrs.field(init=False, factory=Lock)
    _loads: dict[tuple[str, datetime], DayLoad] = attrs.field(init=False, factory=dict)

    def now(self) -> OverviewView:
        """Show what runs, is late, fails, and comes within the hour."""
        now = self._now()
        late = self._overview.coming(now - _BACK, now - OVERDUE_AFTER, limit=COUNTED + 1)
        waiting = self._overview.waiting(now - OVERDUE_AFTER, limit=COUNTED + 1)
        coming = self._overview.coming(now, now + AHEAD, limit=LISTED)
        counts = self._overview.count_coming(now, now + AHEAD)
        unresolved = self._records.archive(UNRESOLVED, limit=_GROUPED)
        found = self._overview.count(most=COUNTED + 1)
        return OverviewView(
            now=now,
            running=self._queries.executions(ExecutionFilter(states=_UNDER_WAY, limit=LISTED)),
            running_count=found.running,
            retrying_count=found.retrying,
            late=late[:LISTED],
            late_count=len(late),
            waiting=[self._queries.execution(id_).execution for id_ in sorted(waiting)[:LISTED]],
            waiting_count=len(waiting),
            failing=FailingView.of(unresolved)[:LISTED],
            unresolved_count=found.unresolved,
            alert_count=found.alerts,
            coming=coming,
            # Asked only where it may say why: it looks at each schedule.
            unplanned_count=0 if coming else self._overview.count_unplanned(most=COUNTED + 1),
            coming_minutes=ComingMinute.of(counts, now),
            latest=self._queries.executions(ExecutionFilter(limit=LISTED)),
            nodes=self._queries.nodes(),
            counted=COUNTED,
        )

    def sparks(self, scheduler_ids: Collection[int]) -> Mapping[int, Sequence[Run]]:
        """Show the last runs of many schedules, oldest first."""
        return self._overview.recent(scheduler_ids, each=SPARKS)

    def load(self, begin: datetime) -> DayLoad:
        """Show the load of the 24 hours from *begin* on, to the minute.

        It is computed anew once a schedule has changed: that takes a second or two for 100,000.
        """
        begin = begin.replace(second=0, microsecond=0)
        with self._lock:  # of several who ask, one computes
            key = self._timings.version(), begin
            load = self._loads.pop(key, None) or day_load(self._timings.timings(), begin)
            self._loads[key] = load
            if len(self._loads) > _REMEMBERED:
                del self._loads[next(iter(self._loads))]
        return load

    def timeline(self, since: datetime, lasting: timedelta, *, by: LaneBy) -> Overlaps:
        """Show what ran from *since* on, for so long.

        Of more than `MOST_ATTEMPTS` those are shown that were claimed last.
        """
        until = since + lasting
        found = self._timeline.ran(since, until, limit=MOST_ATTEMPTS)
        return overlaps(
            found.ran,
            since=since,
            until=until,
            now=self._now(),
            by=by,
            most=MOST_LANES,
            complete_since=found.since,
        )
