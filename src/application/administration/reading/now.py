"""What happens now, and a day at a glance."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

import attrs

from cronhare.application.reports.load import DayLoad, day_load
from cronhare.application.reports.overlaps import LaneBy, Overlaps, overlaps
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import UNRESOLVED
from cronhare.ports.inspection import OVERDUE_AFTER
from cronhare.ports.records import (
    ExecutionFilter,
    OverviewPort,
    RecordsPort,
    Run,
    TimelineStorePort,
)
from cronhare.ports.schedules import TimingStorePort

from ..views.overview import ComingMinute, FailingView, OverviewView
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


@attrs.define(kw_only=True, eq=False)
class Days:
    """Answers for days, and changes nothing. Each method may raise `LedgerUnavailable`.

    *now* is the ledger's clock.
    """

    _timings: TimingStorePort
    _timeline: TimelineStorePort
    _now: Callable[[], datetime]
    _lock: Lock = attrs.field(init=False, factory=Lock)
    _loads: dict[tuple[str, datetime], DayLoad] = attrs.field(init=False, factory=dict)

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
