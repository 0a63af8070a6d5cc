"""The story of an execution: its attempts, the waits between, and why each was followed by what.

The ledger keeps how each attempt ended, and the reason of the last decision. Those before follow
from the same rule that made them (`retries.retry.decide`); what a limit of retries or a strategy of
one's own did to a wait shows in how long it was.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs
import msgspec

from cronhare.application.reports.overlaps import Tone, tone_of
from cronhare.domain.execution import ENDED_WITHOUT_RESULT, UNFINISHED, Execution, State
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

from .waits import what_it_waits_for


@attrs.frozen(kw_only=True)
class Waited:
    """Nothing ran *since* then; *planned* is the least wait that the rule gives, if one does."""

    since: datetime
    until: datetime
    planned: timedelta | None = None
    of: str = ""


@attrs.frozen(kw_only=True)
class Tried:
    """An attempt; *decision* and *reason* say what became of the execution then, where it ended.

    *why* says why no other attempt followed, where it failed for good.
    """

    attempt: Attempt
    tone: Tone
    decision: str | None = None
    reason: str | None = None
    why: str | None = None


@attrs.frozen(kw_only=True)
class Stands:
    """How it stands at last: *waits_for* while something is still to happen."""

    state: State
    at: datetime | None
    reason: str | None
    waits_for: str | None


#: What a story is made of, in its order.
Step = Waited | Tried | Stands


def story(
    execution: Execution,
    attempts: Sequence[Attempt],
    *,
    policy: RetryPolicy,
    crash_policy: CrashPolicy,
    now: datetime,
) -> Iterator[Step]:
    """Tell what happened to an execution, as far as the ledger knows, and what it waits for."""
    judge = _Judge(policy, crash_policy)
    free_at, planned, of = execution.due_at, None, "until it began"
    for place, attempt in enumerate(attempts):
        if attempt.started_at > free_at:
            yield Waited(since=free_at, until=attempt.started_at, planned=planned, of=of)
        is_last = place == len(attempts) - 1
        verdict = judge.verdict(attempt)
        tried, planned = _tried(attempt, verdict, execution, is_last=is_last)
        if isinstance(verdict, Fail):
            tried = attrs.evolve(tried, why=judge.why_no_more(attempt))
        if not is_last and isinstance(verdict, Fail | Quarantine):
            tried = attrs.evolve(tried, decision=f"{tried.decision}, and replayed later")
            judge.begin_anew()
            planned, of = None, "until it was replayed"
        else:
            of = "until the next attempt"
        yield tried
        free_at = attempt.finished_at or attempt.started_at
    yield _stands(execution, now=now)


def _tried(
    attempt: Attempt, verdict: Verdict | None, execution: Execution, *, is_last: bool
) -> tuple[Tried, timedelta | None]:
    """Tell of an attempt, and how long the rule has the next one wait."""
    tried = Tried(attempt=attempt, tone=tone_of(attempt.ending))
    if verdict is None:
        return tried, None
    decision, planned = _said(verdict)
    reason = verdict.reason
    goes_by_it = execution.state in {State.RETRYING, State.FAILED, State.QUARANTINED}
    if is_last and goes_by_it and execution.last_error:
        reason = execution.last_error  # the decision itself, and no inference
        decision = _BECAME[execution.state]
    return attrs.evolve(tried, decision=decision, reason=reason), planned


_BECAME: Final = {
    State.RETRYING: "to be tried again",
    State.FAILED: "failed for good",
    State.QUARANTINED: "quarantined",
}


def _said(verdict: Verdict) -> tuple[str, timedelta | None]:
    match verdict:
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


def _stands(execution: Execution, *, now: datetime) -> Stands:
    has_reason = execution.state in ENDED_WITHOUT_RESULT or execution.state in UNFINISHED
    return Stands(
        state=execution.state,
        at=execution.finished_at,
        reason=execution.last_error if has_reason else None,
        waits_for=what_it_waits_for(execution, now=now),
    )


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
