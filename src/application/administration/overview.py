"""What happens now, on one page: bounded, however much that is."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from cronhare.domain.diagnosis.waiting import OVERDUE_AFTER
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED
from cronhare.ports.records import ExecutionFilter, OverviewPort, RecordsPort, Run

from .queries import Queries
from .views.overview import ComingMinute, FailingView, OverviewView

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


class Overview:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(
        self,
        *,
        overview: OverviewPort,
        records: RecordsPort,
        queries: Queries,
        now: Callable[[], datetime],
    ) -> None:
        """*now* is the ledger's clock."""
        self._overview = overview
        self._records = records
        self._queries = queries
        self._now = now

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
