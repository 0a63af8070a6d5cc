"""What happened to an execution, step by step."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Self

import attrs

from cronhare.domain.execution import NOTHING_REPORTED, State, TaskReport
from cronhare.domain.overlaps import Tone

from ..story import Stands, Step, Tried, Waited
from .executions import AttemptView, ExecutionView
from .values import seconds


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
