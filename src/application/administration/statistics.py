"""What people ask of statistics."""

from collections.abc import Sequence
from datetime import datetime

from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.statistics import By
from cronhare.ports.statistics import StatisticsPort

from .views.statistics import ExecutionCountView, FailureCountView


class Statistics:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(self, statistics: StatisticsPort) -> None:
        """*statistics* is the ledger's."""
        self._statistics = statistics

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCountView]:
        """Count the failures that a filter takes."""
        found = self._statistics.failures(which, by=by, limit=limit)
        return [FailureCountView.of(each) for each in found]

    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCountView]:
        """Count the executions that were claimed from *since* on, before *until*."""
        found = self._statistics.executions(since=since, until=until, by=by, limit=limit)
        return [ExecutionCountView.of(each) for each in found]
