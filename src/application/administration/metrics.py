"""What monitoring asks: it is counted in the ledger when it asks, and not before."""

from cronhare.domain.lifecycle.failure_filter import EVERY_FAILURE, UNRESOLVED
from cronhare.domain.lifecycle.statistics import By
from cronhare.ports.records import RecordsPort
from cronhare.ports.statistics import StatisticsPort

from .views.metrics import MOST_SERIES, MetricsView


class Metrics:
    """Answers a question, and changes nothing. It may raise `LedgerUnavailable`."""

    def __init__(self, *, statistics: StatisticsPort, records: RecordsPort) -> None:
        """Both are the ledger's."""
        self._statistics = statistics
        self._records = records

    def measure(self) -> MetricsView:
        """Count what there is now."""
        by = (By.QUEUE, By.TASK)
        return MetricsView.of(
            self._statistics.failures(EVERY_FAILURE, by=by, limit=MOST_SERIES),
            total=self._records.count_failures(EVERY_FAILURE),
            depth=self._records.count_failures(UNRESOLVED),
            loads=self._records.queues(),
            unheard=self._records.unheard(limit=MOST_SERIES),
        )
