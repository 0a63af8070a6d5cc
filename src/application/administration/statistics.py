"""What people ask of statistics."""

from collections.abc import Sequence
from datetime import datetime

from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.statistics import By
from cronhare.ports.records import StatisticsPort

from .names import Names
from .views.statistics import ExecutionCountView, FailureCountView


class Statistics:
    """Answers questions, and changes nothing. Each method may raise `LedgerUnavailable`."""

    def __init__(self, statistics: StatisticsPort, names: Names) -> None:
        """*statistics* is the ledger's."""
        self._statistics = statistics
        self._names = names

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCountView]:
        """Count the failures that a filter takes.

        Raises:
            NotFound: there is no such schedule, task or queue, and nothing is left of one.
        """
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
