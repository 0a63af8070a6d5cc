"""Why executions are where they are, and why there are none."""

from datetime import datetime
from typing import Self

import attrs

from ..explain import Explanation
from .executions import AttemptView, ExecutionView


@attrs.frozen(kw_only=True)
class ExplanationView:
    """Why a schedule ran at an instant, or did not; or why an execution is where it is.

    *answer* is the short one, *because* what it rests on, sentence by sentence.
    """

    schedule_name: str
    instant: datetime
    timezone: str
    ran: bool
    answer: str
    because: tuple[str, ...]
    execution: ExecutionView | None
    attempts: tuple[AttemptView, ...]

    @classmethod
    def of(
        cls, found: Explanation, *, name: str, timezone: str, instant: datetime, now: datetime
    ) -> Self:
        """Show an explanation of an instant of the schedule *name*, whose zone that is."""
        execution = found.execution
        return cls(
            schedule_name=name,
            instant=instant,
            timezone=timezone,
            ran=found.ran,
            answer=found.answer,
            because=found.because,
            execution=None if execution is None else ExecutionView.of(execution, now=now),
            attempts=tuple(map(AttemptView.of, found.attempts)),
        )
