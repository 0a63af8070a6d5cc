"""An execution: why it is where it is, and its story: attempts, the waits between, what followed.

The ledger keeps how each attempt ended, and the reason of the last decision. Those before follow
from the same rule that made them (`retries.retry.decide`); what a limit of retries or a strategy of
one's own did to a wait shows in how long it was.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import attrs

from cronhare.application.reports.overlaps import Tone, tone_of
from cronhare.domain.execution import (
    ENDED_WITHOUT_RESULT,
    STARTABLE,
    UNFINISHED,
    Execution,
    State,
)
from cronhare.domain.lifecycle.transitions import was_replaced
from cronhare.domain.retries.limits import ACTIVATED
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
    task_awaited_until,
    was_snoozed,
)
from cronhare.domain.schedules.catalog import NoListener
from cronhare.domain.schedules.keys import Trigger, trigger_of
from cronhare.domain.schedules.skips import remedies
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import called_in_full, counted
from cronhare.ports.records import Attempt
from cronhare.ports.runner import NOTHING_REPORTED, TaskReport

from .views.executions import AttemptView, ExecutionView, sent_again_at, what_it_waits_for
from .views.values import ErrorView, read_error, seconds

# Why it is where it is


@attrs.frozen(kw_only=True)
class Explanation:
    """A short *answer*, and the facts it rests on."""

    ran: bool
    answer: str
    because: tuple[str, ...] = ()
    execution: Execution | None = None
    attempts: tuple[Attempt, ...] = ()


def explain_execution(
    execution: Execution,
    attempts: Sequence[Attempt],
    *,
    now: datetime,
    asked: Iterable[str] = (),
) -> Explanation:
    """Explain why an execution is where it is at *now*.

    *asked* says what would run an instant that was skipped.
    """
    if execution.state is State.SKIPPED:
        cures = remedies(execution.last_error or "", execution.schedule_name)
        return Explanation(
            ran=False,
            answer=f"It was due and did not run: {execution.last_error}",
            because=(*_row_of_missed(execution), *cures, *asked),
            execution=execution,
        )
    return Explanation(
        ran=bool(attempts),
        answer=_answer(execution, now),
        because=(
            *_story(execution),
            *_behind_a_breaker(execution, attempts),
            *_where_it_is(execution, now),
        ),
        execution=execution,
        attempts=tuple(attempts),
    )


_ANSWERS = {
    State.CLAIMED: "It was claimed, and the broker has not taken it yet",
    State.PUBLISHED: "It is in the queue and waits for a worker",
    State.HELD: "It is held back",
    State.RUNNING: "It is running",
    State.RETRYING: "It ran, did not succeed, and waits for its next attempt",
    State.SUCCEEDED: "It ran and succeeded",
    State.FAILED: "It ran and failed for good: {last}",
    State.QUARANTINED: "It was quarantined: {last}",
    State.CANCELLED: "It was cancelled",
    State.HANDED_OVER: (
        "It was handed over: whether it ran, the program that serves its queue knows"
    ),
}


def _answer(execution: Execution, now: datetime) -> str:
    begins = execution.next_attempt_at
    if execution.state is State.CLAIMED and begins is not None and begins > now:
        return "It was claimed, and its time has not come yet"
    if execution.state is State.RETRYING and task_awaited_until(execution.last_error):
        return "No worker that took it has its task"
    if execution.state is State.RETRYING and was_snoozed(execution.last_error):
        return "It ran, and its task asked to be run again later"
    answer = _ANSWERS[execution.state].format(last=execution.last_error)
    if execution.state is State.CANCELLED and was_replaced(execution):
        return f"{answer}: {execution.last_error}"
    return answer


def _row_of_missed(execution: Execution) -> Iterator[str]:
    if execution.missed > 1 and execution.last_due_at is not None:
        first, last = say_moment(execution.due_at), say_moment(execution.last_due_at)
        yield f"It is one of {execution.missed} instants from {first} to {last} with this reason."
    yield f"Recorded at {say_moment(execution.executed_at)} by {execution.container_id}."


def _story(execution: Execution) -> Iterator[str]:
    late = execution.executed_at - execution.due_at
    claimed, by = say_moment(execution.executed_at), execution.container_id
    if late < timedelta():
        yield f"Claimed at {claimed} by {by}, before it was due."
    elif trigger_of(execution.key) is Trigger.BACKFILL:  # it was not to be in time
        yield f"Claimed at {claimed} by {by}."
    else:
        yield f"Claimed at {claimed} by {by}, {late.total_seconds():.1f} s after."
    if execution.missed:
        yield f"It makes up for {counted(execution.missed, 'missed instant')}."
    if execution.topic is not None:
        unheard = "it fails" if execution.no_listener == NoListener.FAIL else "it is completed"
        yield f"It is an event of {execution.topic}; where no task listens to that, {unheard}."
    if execution.task_name is not None:
        named = called_in_full(execution.task, name=execution.task_name, source=execution.source)
        yield f"Its task is {named}."


def _behind_a_breaker(execution: Execution, attempts: Sequence[Attempt]) -> Iterator[str]:
    if execution.last_error == ACTIVATED and attempts:
        error = ErrorView.of(attempts[-1].error)
        if error is not None:
            yield f"Its last attempt ended so: {error.message}."


def _where_it_is(execution: Execution, now: datetime) -> Iterator[str]:
    if execution.state not in UNFINISHED:
        return
    if execution.problem is not None:
        yield f"Its row is broken: {execution.problem}."
    if execution.state is State.RETRYING and execution.next_attempt_at is not None:
        yield f"Attempt {execution.attempt} comes at {say_moment(execution.next_attempt_at)}."
        yield f"The one before ended so: {execution.last_error}."
    yield f"It waits for {what_it_waits_for(execution, now=now)}."
    lease = execution.lease_until
    if execution.state is State.RUNNING and lease is not None and lease > now:
        until = say_moment(lease)
        yield f"Its lease is until {until}, and {execution.owner} renews it while it lives."
    if execution.resends:
        yield f"Its message was sent again {counted(execution.resends, 'time')}."
    if (again := sent_again_at(execution, now=now)) is not None:
        yield f"If it has not begun by {say_moment(again)}, a scheduler sends its message again."
    if execution.state in STARTABLE:
        yield "If it stays so, `cronhare queues` and `cronhare doctor` tell why."


# Its story


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
    free_at, what_for = execution.due_at, "until it began"
    planned: timedelta | None = None
    deaths, crashes = 0, tuple[Crash, ...]()
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
        verdict, ended = None, attempt.finished_at
        if ended is not None:  # judged as it was then
            outcome = _outcome(attempt)
            if outcome.ending in MAY_COUNT:
                crashes = (*crashes, Crash(ended, outcome.ending, attempt.node))
            verdict = decide(
                outcome,
                deaths=deaths,
                policy=policy,
                crash_policy=crash_policy,
                crashes=crashes,
                now=ended,
                random_fraction=0.0,
            )
            deaths += isinstance(verdict, RetryAfter)
        decision, planned = _said(verdict)
        reason, what_for = verdict.reason if verdict else None, "until the next attempt"
        why = _why_no_more(attempt, policy) if isinstance(verdict, Fail) else None
        if attempt is not attempts[-1]:
            if isinstance(verdict, Fail | Quarantine):
                decision, planned = f"{decision}, and replayed later", None
                what_for = "until it was replayed"
                deaths, crashes = 0, ()
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


def _why_no_more(attempt: Attempt, policy: RetryPolicy) -> str:
    if _error(attempt).error_class is ErrorClass.PERMANENT:
        return "its error is permanent, and not tried again"
    most = policy.max_retries
    return f"its {most} retries are spent" if most else "it has no retries"


def _outcome(attempt: Attempt) -> Outcome:
    ending = Ending(attempt.ending or "")
    return Outcome(
        ending=ending,
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        error=None if ending is Ending.SUCCEEDED else _error(attempt),
    )


def _error(attempt: Attempt) -> TaskError:
    return read_error(attempt.error) or TaskError(message=attempt.error or str(attempt.ending))


@attrs.frozen(kw_only=True)
class StoryView:
    """An execution as it stands *now*, and the steps that led there, oldest first."""

    now: datetime
    execution: ExecutionView
    steps: Sequence[StepView]
