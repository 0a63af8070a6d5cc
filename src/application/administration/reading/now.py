"""What happens now, a day at a glance, and what monitoring, statistics and the audit are asked."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, TypeAlias

import attrs

from cronhare.application.reports.load import DayLoad, day_load
from cronhare.application.reports.overlaps import LaneBy, Overlaps, overlaps
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, By, FailureFilter
from cronhare.domain.nodes import MOST_REPORTS, has_passed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.inspection import OVERDUE_AFTER
from cronhare.ports.records import (
    AuditFilter,
    AuditStorePort,
    ExecutionFilter,
    OverviewPort,
    RecordsPort,
    Run,
    StatisticsPort,
    TimelineStorePort,
)
from cronhare.ports.schedules import TimingStorePort

from ..names import Names
from ..views.access import AuditView
from ..views.failures import ExecutionCountView, FailureCountView
from ..views.overview import ComingMinute, FailingView, OverviewView
from ..views.work import MOST_SERIES, MetricsView
from .limits import LimitViews
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


@attrs.frozen(kw_only=True)
class Overview:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`.

    *now* is the ledger's clock.
    """

    _overview: OverviewPort
    _records: RecordsPort
    _queries: Queries
    _now: Callable[[], datetime]

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


#: Attempts that one timeline is made of, and its lanes.
MOST_ATTEMPTS: Final = 10_000
MOST_LANES: Final = 40

#: Days whose load is remembered while no schedule changes.
_REMEMBERED: Final = 8


#: So long a timeline is as good as new.
_FRESH: Final = timedelta(seconds=10)


#: Since when, for how long, and by what.
_Asked: TypeAlias = tuple[datetime, timedelta, LaneBy]


@attrs.define(kw_only=True, eq=False)
class Days:
    """Answers for days, and changes nothing. Each method may raise `LedgerUnavailable`.

    *now* is the ledger's clock.
    """

    _timings: TimingStorePort
    _timeline: TimelineStorePort
    _now: Callable[[], datetime]
    _lock: Lock = attrs.field(init=False, factory=Lock)
    _version: str = attrs.field(init=False, default="")
    _loads: dict[datetime, DayLoad] = attrs.field(init=False, factory=dict[datetime, DayLoad])
    _seen: dict[_Asked, Overlaps] = attrs.field(init=False, factory=dict[_Asked, Overlaps])

    def load(self, begin: datetime) -> DayLoad:
        """Show the load of the 24 hours from *begin* on, to the minute.

        It is computed anew once a schedule has changed: that takes a second or two for 100,000.
        """
        begin = begin.replace(second=0, microsecond=0)
        with self._lock:  # of several who ask, one computes
            version = self._timings.version()
            if version != self._version:
                self._version, self._loads = version, {}
            load = self._loads.pop(begin, None)
            if load is None:
                load = day_load(self._timings.timings(), begin)
            self._loads[begin] = load
            while len(self._loads) > _REMEMBERED:
                del self._loads[next(iter(self._loads))]
        return load

    def timeline(self, since: datetime, lasting: timedelta, *, by: LaneBy) -> Overlaps:
        """Show what ran from *since* on, for so long.

        Of more than `MOST_ATTEMPTS` those are shown that were claimed last. What was seen a moment
        ago is shown again.
        """
        now, asked = self._now(), (since, lasting, by)
        with self._lock:
            seen = self._seen.get(asked)
            if seen is None or has_passed(_FRESH, seen.now, now):
                self._seen = {
                    one: view
                    for one, view in self._seen.items()
                    if not has_passed(_FRESH, view.now, now)
                }
                until = since + lasting
                found = self._timeline.ran(since, until, limit=MOST_ATTEMPTS)
                seen = self._seen[asked] = overlaps(
                    found.ran,
                    since=since,
                    until=until,
                    now=now,
                    by=by,
                    most=MOST_LANES,
                    complete_since=found.since,
                )
        return seen


@attrs.frozen(kw_only=True)
class Metrics:
    """Answers a question, and changes nothing. It may raise `LedgerUnavailable`.

    *now* is the ledger's clock. So many *schedules* have series of their own.
    """

    _statistics: StatisticsPort
    _records: RecordsPort
    _nodes: NodeStorePort
    _limits: LimitViews
    _now: Callable[[], datetime]
    _schedules: int

    def measure(self) -> MetricsView:
        now, loads = self._now(), self._records.queues()
        unresolved = self._unresolved()
        view = MetricsView.of(
            self._statistics.failures(EVERY_FAILURE, by=(By.QUEUE, By.TASK), limit=MOST_SERIES),
            total=self._records.count_failures(EVERY_FAILURE),
            depth=sum(unresolved.values()),
            loads=loads,
            unheard=self._records.unheard(limit=MOST_SERIES),
        )
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        waited_for = {load.queue for load in loads}
        view = view.waiting_at(now, loads).with_nodes(reports, waited_for, now)
        view = view.with_limits(self._limits.budgets(), self._limits.breakers())
        view = view.with_results(self._statistics.last_results(limit=self._schedules))
        return attrs.evolve(
            view,
            unresolved={(state.value,): count for state, count in unresolved.items()},
            rows={(table,): count for table, count in self._statistics.rows().items()},
        )

    def _unresolved(self) -> Counter[State]:
        found = self._statistics.failures(UNRESOLVED, by=(By.TYPE,), limit=MOST_SERIES)
        quarantined = sum(each.quarantined for each in found)
        failed = self._records.count_failures(UNRESOLVED) - quarantined
        return Counter({State.FAILED: failed, State.QUARANTINED: quarantined})


@attrs.frozen
class Statistics:
    """Answers questions, and changes nothing; may raise `LedgerUnavailable` and `NotFound`."""

    _statistics: StatisticsPort
    _names: Names

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCountView]:
        found = self._statistics.failures(self._names.resolved(which), by=by, limit=limit)
        if not found:
            self._names.refuse_unknown(which)
        return [FailureCountView.of(each) for each in found]

    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCountView]:
        """Count the executions that were claimed from *since* on, before *until*."""
        found = self._statistics.executions(since=since, until=until, by=by, limit=limit)
        return [ExecutionCountView.of(each) for each in found]


#: So many entries are listed at most, at a time.
MOST_LISTED: Final = 1_000


@attrs.frozen
class AuditQueries:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    _entries: AuditStorePort

    def entries(
        self,
        *,
        since: datetime | None = None,
        actor: str | None = None,
        target: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[AuditView]:
        """List entries, newest first; the next page begins *before* the id of the last one."""
        which = AuditFilter(since=since, actor=actor, target=target)
        found = self._entries.entries(which, before=before, limit=min(limit, MOST_LISTED))
        return [AuditView.of(entry) for entry in found]
