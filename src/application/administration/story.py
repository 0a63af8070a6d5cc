"""The story of an execution: its attempts, the waits between, and why each was followed by what.

The ledger keeps how each attempt ended, and the reason of the last decision. Those before follow
from the same rule that made them (`retries.retry.decide`); what a limit of retries or a strategy of
one's own did to a wait shows in how long it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import attrs
import msgspec

from cronhare.application.reports.overlaps import Tone, tone_of
from cronhare.domain.execution import (
    ENDED_WITHOUT_RESULT,
    NOTHING_REPORTED,
    UNFINISHED,
    Execution,
    State,
    TaskReport,
)
from cronhare.domain.retries.outcome import (
    MAY_COUNT,
    Crash,
    CrashPolicy,
    Ending,
    ErrorClass,
    Outcome,
    TaskError,
)
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import (
    Cancel,
    Complete,
    Fail,
    GiveBack,
    Quarantine,
    RetryAfter,
    Verdict,
    decide,
)
from cronhare.ports.records import Attempt

from .views.executions import AttemptView
from .views.values import seconds
from .waits import what_it_waits_for


@attrs.frozen(kw_only=True)
class StepView:
    """A step of a story; what its kind does not have is None.

    *waited*: nothing ran, and *planned_seconds* is the least wait that the rule gives, if one does.
    *tried*: an attempt; *decision* and *reason* say what became of the execution then, *why* why
    no other attempt followed. *stands*: how it stands at last, and what it waits for.
    """

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


def story(
    execution: Execution,
    attempts: Sequence[Attempt],
    reports: Mapping[int, TaskReport],
    *,
    policy: RetryPolicy,
    crash_policy: CrashPolicy,
    now: datetime,
) -> Iterator[StepView]:
    """Tell what happened to an execution, as far as the ledger knows, and what it waits for.

    *reports* are those of the attempts, by number.
    """
    judge = _Judge(policy, crash_policy)
    free_at, what_for = execution.due_at, "until it began"
    planned: timedelta | None = None
    for attempt in attempts:
        if attempt.started_at > free_at:
            yield StepView(
                kind="waited",
                since=free_at,
                until=attempt.started_at,
                seconds=seconds(attempt.started_at - free_at),
                planned_seconds=seconds(planned),
                what_for=what_for,
            )
        verdict = judge.verdict(attempt)
        decision, planned = _said(verdict)
        reason, what_for = verdict.reason if verdict else None, "until the next attempt"
        why = judge.why_no_more(attempt) if isinstance(verdict, Fail) else None
        if attempt is not attempts[-1]:
            if isinstance(verdict, Fail | Quarantine):
                decision, planned = f"{decision}, and replayed later", None
                what_for = "until it was replayed"
                judge.begin_anew()
        elif verdict is not None and execution.state in _BECAME and execution.last_error:
            reason = execution.last_error  # the decision itself, and no inference
            decision = _BECAME[execution.state]
        yield StepView(
            kind="tried",
            since=attempt.started_at,
            until=attempt.finished_at,
            tone=tone_of(attempt.ending),
            attempt=AttemptView.of(attempt, reports.get(attempt.attempt, NOTHING_REPORTED)),
            decision=decision,
            reason=reason,
            why=why,
        )
        free_at = attempt.finished_at or attempt.started_at
    has_reason = execution.state in ENDED_WITHOUT_RESULT or execution.state in UNFINISHED
    yield StepView(
        kind="stands",
        since=execution.finished_at,
        state=execution.state,
        reason=execution.last_error if has_reason else None,
        what_for=what_it_waits_for(execution, now=now),
    )


_BECAME: Final = {
    State.RETRYING: "to be tried again",
    State.FAILED: "failed for good",
    State.QUARANTINED: "quarantined",
}


def _said(verdict: Verdict | None) -> tuple[str | None, timedelta | None]:
    """Say what was decided, and how long the rule has the next attempt wait."""
    match verdict:
        case None:
            return None, None
        case Complete():
            return "succeeded", None
        case RetryAfter(delay=delay):
            return "tried again", delay
        case GiveBack(delay=delay):
            return "given back, at no cost", delay
        case Cancel():
            return "cancelled", None
        case Quarantine():
            return _BECAME[State.QUARANTINED], None
    return _BECAME[State.FAILED], None


@attrs.define
class _Judge:
    """Judges attempts one after another, as they were judged then."""

    _policy: RetryPolicy
    _crash_policy: CrashPolicy
    _deaths: int = attrs.field(init=False, default=0)
    _crashes: tuple[Crash, ...] = attrs.field(init=False, default=())

    def verdict(self, attempt: Attempt) -> Verdict | None:
        """Judge an attempt; None if it runs, or cannot be understood."""
        ended = attempt.finished_at
        try:
            ending = Ending(attempt.ending or "")
        except ValueError:
            return None
        if ended is None:
            return None
        if ending in MAY_COUNT:
            self._crashes = (*self._crashes, Crash(ended, ending, attempt.node))
        verdict = decide(
            _outcome(attempt, ending),
            deaths=self._deaths,
            policy=self._policy,
            crash_policy=self._crash_policy,
            crashes=self._crashes,
            now=ended,
            random_fraction=0.0,
        )
        self._deaths += isinstance(verdict, RetryAfter)
        return verdict

    def why_no_more(self, attempt: Attempt) -> str:
        """Say why an attempt that failed for good was not followed by another."""
        if _error(attempt).error_class is ErrorClass.PERMANENT:
            return "its error is permanent, and not tried again"
        most = self._policy.max_retries
        return f"its {most} retries are spent" if most else "it has no retries"

    def begin_anew(self) -> None:
        """Forget what was: it was replayed."""
        self._deaths, self._crashes = 0, ()


def _outcome(attempt: Attempt, ending: Ending) -> Outcome:
    return Outcome(
        ending=ending,
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        error=None if ending is Ending.SUCCEEDED else _error(attempt),
    )


def _error(attempt: Attempt) -> TaskError:
    text = attempt.error or ""
    try:
        return msgspec.json.decode(text, type=TaskError)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return TaskError(message=text or str(attempt.ending))
