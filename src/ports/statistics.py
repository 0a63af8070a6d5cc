"""Statistics of the ledger: counted where the rows are, and only when somebody asks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.statistics import (
    By,
    ExecutionCount,
    FailureCount,
    ScheduleResults,
)


class StatisticsPort(Protocol):
    """Counts rows of the ledger. Every method may raise `LedgerUnavailable`.

    Groups come with the newest day first, if they are by day, then with the largest number first.

    What tests/integration/test_statistics_contract.py does not assert is not promised.
    """

    def failures(
        self, which: FailureFilter, *, by: Sequence[By], limit: int
    ) -> Sequence[FailureCount]:
        """Count the failures that a filter takes, by what *by* names; at most *limit* groups."""
        ...

    def executions(
        self, *, since: datetime, until: datetime | None, by: Sequence[By], limit: int
    ) -> Sequence[ExecutionCount]:
        """Count executions claimed from *since* on, before *until*, and as `failures` does.

        Those that were skipped and the system's own are left out. There is no group by what only
        failures have: see `OF_FAILURES`.
        """
        ...

    def last_results(self, *, limit: int) -> ScheduleResults:
        """Tell how the runs of *limit* schedules that may run again last ended, by their ids.

        They are due again, or enabled and without times: those begin by hand, at a start or a boot,
        or to stay alive. The system's own are left out.
        Each is one look into an index, however long the history is.
        """
        ...

    def rows(self) -> Mapping[str, int]:
        """Tell how many executions, failures and events there are at most: the span of their ids.

        To count them would be to read them.
        """
        ...
