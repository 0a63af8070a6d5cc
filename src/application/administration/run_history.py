"""The runs of one schedule: their calendar, and how long they take."""

from collections.abc import Callable, Sequence
from datetime import datetime
from math import ceil
from typing import Final

import attrs

from cronhare.domain.cron import find_zone
from cronhare.domain.execution import State
from cronhare.domain.run_calendar import Moment, RunCalendar, lay_out
from cronhare.domain.schedules.schedule import DEFAULT_ZONE
from cronhare.ports.records import OverviewPort, Run
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from .lookup import find_schedule, understood

#: So many runs are looked at: as many as are kept of what succeeded, unless settings say otherwise.
MOST_RUNS: Final = 1_000


@attrs.frozen(kw_only=True)
class HistoryView:
    """The newest runs, oldest first; seconds that half of those that succeeded took, and 95 %."""

    runs: Sequence[Run]
    calendar: RunCalendar
    succeeded: int
    failed: int
    p50_seconds: float | None
    p95_seconds: float | None


@attrs.frozen(kw_only=True)
class RunHistory:
    """Answers questions, and changes nothing. *now* is the ledger's clock."""

    _schedules: ScheduleStorePort
    _overview: OverviewPort
    _now: Callable[[], datetime]

    def of(self, name: str) -> HistoryView:
        """Show the runs of a schedule.

        Raises:
            NotFound: there is no such schedule.
        """
        stored, now = find_schedule(self._schedules, name), self._now()
        runs = self._overview.recent([stored.id], each=MOST_RUNS).get(stored.id, ())
        took = sorted(
            run.seconds for run in runs if run.state is State.SUCCEEDED and run.seconds is not None
        )
        return HistoryView(
            runs=runs,
            calendar=_calendar(stored, runs, now),
            succeeded=sum(run.state is State.SUCCEEDED for run in runs),
            failed=sum(run.state in {State.FAILED, State.QUARANTINED} for run in runs),
            p50_seconds=percentile(took, 50),
            p95_seconds=percentile(took, 95),
        )


def percentile(ordered: Sequence[float], part: int) -> float | None:
    """Give the smallest value that so many percent of the others do not exceed.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95), percentile([], 50)
    (2, 4, None)
    >>> percentile([1, 2, 3, 4, 5], 50)
    3
    """
    if not ordered:
        return None
    return ordered[max(0, ceil(len(ordered) * part / 100) - 1)]


def _calendar(stored: StoredSchedule, runs: Sequence[Run], now: datetime) -> RunCalendar:
    schedule = understood(stored) if stored.problem is None else None
    zone = stored.draft.timezone if stored.draft else DEFAULT_ZONE
    is_cut = len(runs) == MOST_RUNS
    since = max(stored.created_at, runs[0].due_at if is_cut else stored.created_at)
    return lay_out(
        [Moment(run.due_at, run.state) for run in runs],
        zone=find_zone(zone if schedule else DEFAULT_ZONE),
        now=now,
        since=since,
        due_after=lambda at: None if schedule is None else schedule.timing.next(at),
    )
