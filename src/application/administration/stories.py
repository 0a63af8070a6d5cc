"""Answering with the story of an execution, step by step."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Self

import attrs

from cronhare.application.reports.overlaps import Tone
from cronhare.domain.execution import NOTHING_REPORTED, REPLAYABLE, State, TaskReport
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.ports.records import RecordsPort

from .names import Names
from .reading.lookup import NotFound
from .story import Stands, Step, Tried, Waited, story
from .views.executions import AttemptView, ExecutionView
from .views.values import seconds


@attrs.frozen(kw_only=True)
class StepView:
    """A step of a story: see `Waited`, `Tried` and `Stands`; what a kind does not have is None."""

    kind: Literal["waited", "tried", "stands"]
    since: datetime | None = None
    until: datetime | None = None
    seconds: float | None = None
    planned_seconds: float | None = None
    what_for: str | None = None
    tone: Tone | None = None
    attempt: AttemptView | None = None
    decision: str | None = None
    reason: str | None = None
    why: str | None = None
    state: State | None = None

    @classmethod
    def of(cls, step: Step, reports: Mapping[int, TaskReport]) -> Self:
        """Show a step; *reports* are those of the attempts, by number."""
        match step:
            case Waited():
                return cls(
                    kind="waited",
                    since=step.since,
                    until=step.until,
                    seconds=seconds(step.until - step.since),
                    planned_seconds=seconds(step.planned),
                    what_for=step.of,
                )
            case Tried(attempt=attempt):
                report = reports.get(attempt.attempt, NOTHING_REPORTED)
                return cls(
                    kind="tried",
                    since=attempt.started_at,
                    until=attempt.finished_at,
                    tone=step.tone,
                    attempt=AttemptView.of(attempt, report),
                    decision=step.decision,
                    reason=step.reason,
                    why=step.why,
                )
            case Stands():
                return cls(
                    kind="stands",
                    since=step.at,
                    state=step.state,
                    reason=step.reason,
                    what_for=step.waits_for,
                )


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
            policy=self._policies.of(execution),
            crash_policy=self._policies.crashes_of(execution),
            now=now,
        )
        [shown] = self._names.named([execution])
        last = reports.get(execution.attempt, NOTHING_REPORTED)
        return StoryView(
            now=now,
            execution=ExecutionView.of(shown, now=now, report=last),
            steps=[StepView.of(step, reports) for step in steps],
        )

    def failure_of(self, execution: ExecutionView) -> int | None:
        """Find the row of the archive by which an execution can be replayed."""
        if execution.state not in REPLAYABLE:
            return None
        found = self._records.archive(FailureFilter(execution_id=execution.id), limit=1)
        return found[0].id if found else None
