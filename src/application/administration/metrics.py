"""What monitoring asks: it is counted in the ledger when it asks, and not before."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.failure_filter import EVERY_FAILURE, UNRESOLVED
from cronhare.domain.lifecycle.statistics import By
from cronhare.domain.nodes import MOST_REPORTS
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.records import RecordsPort, StatisticsPort

from .retry_limits import RetryLimitDesk
from .views.metrics import MOST_SERIES, MetricsView


@attrs.frozen(kw_only=True)
class Metrics:
    """Answers a question, and changes nothing. It may raise `LedgerUnavailable`.

    *now* is the ledger's clock. So many *schedules* have series of their own.
    """

    _statistics: StatisticsPort
    _records: RecordsPort
    _nodes: NodeStorePort
    _limits: RetryLimitDesk
    _now: Callable[[], datetime]
    _schedules: int

    def measure(self) -> MetricsView:
        """Count what there is now."""
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
