"""Answering with the story of an execution, step by step."""

from collections.abc import Callable, Sequence
from datetime import datetime

import attrs

from cronhare.domain.execution import NOTHING_REPORTED, REPLAYABLE
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.ports.records import RecordsPort

from .names import Names
from .reading.lookup import NotFound
from .story import StepView, story
from .views.executions import ExecutionView


@attrs.frozen(kw_only=True)
class StoryView:
    """An execution as it stands *now*, and the steps that led there, oldest first."""

    now: datetime
    execution: ExecutionView
    steps: Sequence[StepView]


@attrs.frozen(kw_only=True)
class Stories:
    """Tells what happened to executions. *now* is the ledger's clock."""

    _records: RecordsPort
    _names: Names
    _policies: RetryPolicies
    _now: Callable[[], datetime]

    def of(self, execution_id: int) -> StoryView:
        """Tell the story of an execution.

        Raises:
            NotFound: there is none.
        """
        execution, now = self._records.execution(execution_id), self._now()
        if execution is None:
            raise NotFound(f"there is no execution {execution_id}")
        attempts = self._records.attempts(execution_id)
        reports = {one.attempt: one.report for one in self._records.reported([execution_id])}
        steps = story(
            execution,
            attempts,
            reports,
            policy=self._policies.of(execution),
            crash_policy=self._policies.crashes_of(execution),
            now=now,
        )
        [shown] = self._names.named([execution])
        last = reports.get(execution.attempt, NOTHING_REPORTED)
        return StoryView(
            now=now,
            execution=ExecutionView.of(shown, now=now, report=last),
            steps=[*steps],
        )

    def failure_of(self, execution: ExecutionView) -> int | None:
        """Find the row of the archive by which an execution can be replayed."""
        if execution.state not in REPLAYABLE:
            return None
        found = self._records.archive(FailureFilter(execution_id=execution.id), limit=1)
        return found[0].id if found else None
