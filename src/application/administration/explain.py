"""Why a schedule ran at an instant or did not, and why an execution is where it is."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.application.doctor.nodes import LOOK_FOR_HELD
from cronhare.domain.execution import STARTABLE, UNFINISHED, Execution, State
from cronhare.domain.lifecycle.orders import Replay
from cronhare.domain.lifecycle.transitions import was_replaced
from cronhare.domain.nodes import CLOCKS_DIFFER
from cronhare.domain.retries.limits import ACTIVATED
from cronhare.domain.retries.retry import task_awaited_until
from cronhare.domain.schedules.catalog import NoListener
from cronhare.domain.schedules.conditions import FoundCalendar
from cronhare.domain.schedules.keys import (
    Trigger,
    backfill_key,
    cron_key,
    every_key,
    once_key,
    trigger_of,
)
from cronhare.domain.schedules.schedule import ByHand, Every, Schedule
from cronhare.domain.schedules.skips import Circumstances
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import called_in_full, counted
from cronhare.ports.inspection import LastClaim
from cronhare.ports.records import Attempt, ExecutionFilter, RecordsPort, Retention
from cronhare.ports.schedules import StoredSchedule

from .changing.replays import on_request
from .reading.lookup import understood
from .reading.schedules import came_of
from .views.values import ErrorView
from .waits import sent_again_at, what_it_waits_for


@attrs.frozen(kw_only=True)
class Explanation:
    """A short *answer*, and the facts it rests on."""

    ran: bool
    answer: str
    because: tuple[str, ...] = ()
    execution: Execution | None = None
    attempts: tuple[Attempt, ...] = ()


def explain(
    stored: StoredSchedule,
    instant: datetime,
    *,
    records: RecordsPort,
    now: datetime,
    calendars: Mapping[str, FoundCalendar] | None = None,
    replays: Sequence[Replay] = (),
) -> Explanation:
    """Explain what became of the minute of *instant*; of an interval's second.

    *calendars* are those that the schedule names, as far as there are any; a backfill among the
    *replays* may be about to run it.
    """

    def asked_for(due: datetime, reason: str) -> Iterator[str]:
        return on_request(stored, due, said=reason, calendars=calendars or {}, replays=replays)

    def explained(execution: Execution, asked: Iterable[str] = ()) -> Explanation:
        return explain_execution(execution, records.attempts(execution.id), now=now, asked=asked)

    execution, backfill = _find(stored.id, instant, records), None
    if execution is None or execution.state is State.SKIPPED:
        backfill = _find_backfill(stored.id, instant, records)
    schedule = understood(stored)
    due = instant if schedule is None else _instant_of(schedule, instant)
    if backfill is not None:
        why = f" It did not run at its time: {execution.last_error}." if execution else ""
        found = explained(backfill)
        found = attrs.evolve(found, because=(f"A backfill asked for it.{why}", *found.because))
    elif execution is not None:
        found = explained(execution, asked_for(due, execution.last_error or ""))
    elif (begun := begun_at(stored.name, instant, records)) is not None:
        found = explained(begun)
        found = attrs.evolve(found, because=(f"{came_of(begun)}.", *found.because))
    elif schedule is None:
        found = Explanation(
            ran=False,
            answer="It cannot be planned: its row in the table is broken",
            because=(stored.problem or "", "Mend the row; an edit is noticed within seconds."),
        )
    else:
        circumstances = Circumstances(
            pause=stored.pause, claimed=stored.claimed, calendars=calendars or {}
        )
        skipped = circumstances.why_skipped(schedule, due, now)
        last = records.last_claim
        found = _without_record(schedule, stored, due, skipped, asked_for, last=last, now=now)
    if found.ran:
        return found
    beside = begun_beside(stored.name, instant, records) if found.execution is None else ()
    return attrs.evolve(found, because=(*beside, *found.because, *_planned_ahead(stored, now)))


def _without_record(
    schedule: Schedule,
    stored: StoredSchedule,
    due: datetime,
    why: str | None,
    asked_for: Callable[[datetime, str], Iterator[str]],
    *,
    last: Callable[[], LastClaim | None],
    now: datetime,
) -> Explanation:
    """Explain an instant that has no row; *why* is what keeps it from running, if known."""
    if schedule.timing.next(due - timedelta(microseconds=1)) != due:
        neighbours = tuple(_neighbours(schedule, due))
        return Explanation(ran=False, answer="It was not due then", because=neighbours)
    if due > now:
        return _future(schedule, stored, why)
    if (reason := _never(schedule, stored, due, why)) is not None:
        because = (*remedies(reason, stored.name), *asked_for(due, reason))
        return Explanation(ran=False, answer=f"It did not run: {reason}", because=because)
    if not stored.planned or (stored.next_due_at is not None and stored.next_due_at <= due):
        return _not_yet(due, last())
    return Explanation(ran=False, answer=_forgotten(due, now))


def _planned_ahead(stored: StoredSchedule, now: datetime) -> Iterator[str]:
    """Tell of a plan that was made while the ledger's clock was ahead, before it was set right."""
    schedule, planned = understood(stored), stored.next_due_at
    if schedule is None or planned is None or not stored.planned:
        return
    following = schedule.next(now + CLOCKS_DIFFER)
    if following is not None and planned > following:
        yield (
            "The ledger's clock was ahead, and its instants were decided on then: "
            f"nothing of it is due before {say_moment(planned)}."
        )
        yield (
            f"`cronhare schedules disable {stored.name}` and then `enable` plans it anew, "
            "as any edit does."
        )


def has_times(stored: StoredSchedule) -> bool:
    """Whether a schedule is ever due by itself, as far as its row can be understood."""
    return stored.draft is None or stored.draft.has_times


def newest_instant(stored: StoredSchedule, *, now: datetime) -> datetime:
    """Give the last instant at which a schedule was due; *now* if there is none."""
    schedule = understood(stored)
    last = None if schedule is None else schedule.timing.previous(now + timedelta(microseconds=1))
    return now if last is None else last


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
        name, reason = execution.schedule_name, execution.last_error or ""
        return Explanation(
            ran=False,
            answer=f"It was due and did not run: {execution.last_error}",
            because=(
                *_row_of_missed(execution),
                *remedies(reason, name),
                *asked,
            ),
            execution=execution,
        )
    return Explanation(
        ran=bool(attempts),
        answer=_answer(execution),
        because=(
            *_story(execution),
            *_behind_a_breaker(execution, attempts),
            *_where_it_is(execution, now),
        ),
        execution=execution,
        attempts=tuple(attempts),
    )


def _instant_of(schedule: Schedule, moment: datetime) -> datetime:
    """Give the only instant at which it can be due in that minute; of an interval's second."""
    due = moment.replace(microsecond=0)
    return due if isinstance(schedule.timing, Every) else due.replace(second=0)


def _find(scheduler_id: int, instant: datetime, records: RecordsPort) -> Execution | None:
    """Find the record of an instant; the schedule may have been edited since."""
    minute = instant.replace(second=0, microsecond=0)
    wanted = ((every_key(instant), instant), (cron_key(minute), minute), (once_key(minute), minute))
    found = (records.covering(scheduler_id, key=key, instant=due) for key, due in wanted)
    return next(filter(None, found), None)


def _find_backfill(scheduler_id: int, instant: datetime, records: RecordsPort) -> Execution | None:
    """Find the run of a past instant that was asked for."""
    for due in (instant, instant.replace(second=0, microsecond=0)):
        key = backfill_key(due)
        found = records.covering(scheduler_id, key=key, instant=due)
        if found is not None and found.key == key:
            return found
    return None


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


def _answer(execution: Execution) -> str:
    if execution.state is State.RETRYING and task_awaited_until(execution.last_error):
        return "No worker that took it has its task"
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
    if trigger_of(execution.key) is Trigger.BACKFILL:  # it was not to be in time
        yield f"Claimed at {claimed} by {by}."
    else:
        yield f"Claimed at {claimed} by {by}, {late.total_seconds():.1f} s after."
    if execution.topic is not None:
        unheard = "it fails" if execution.no_listener == NoListener.FAIL else "it is completed"
        yield f"It is an event of {execution.topic}; where no task listens to that, {unheard}."
    if execution.task_name is not None:
        named = called_in_full(execution.task, name=execution.task_name, source=execution.source)
        yield f"Its task is {named}."


def _behind_a_breaker(execution: Execution, attempts: Sequence[Attempt]) -> Iterator[str]:
    """Give the error of a run for which an open breaker gave the reason."""
    if execution.last_error == ACTIVATED and attempts:
        error = ErrorView.of(attempts[-1].error)
        if error is not None:
            yield f"Its last attempt ended so: {error.message}."


def _where_it_is(execution: Execution, now: datetime) -> Iterator[str]:
    """Say what happens next, and what to look at if it does not."""
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
        yield "If it stays so: `cronhare queues` has who consumes, `cronhare doctor` what is wrong."


def _neighbours(schedule: Schedule, instant: datetime) -> Iterator[str]:
    if isinstance(schedule.timing, ByHand):
        starts = " or at a boot or start, as its jobs file says" if schedule.source else ""
        yield f"It has no times of its own: it runs when somebody asks{starts}."
        return
    before, after = schedule.timing.previous(instant), schedule.timing.next(instant)
    yield f"The instant before is {say_moment(before) if before else 'none'}."
    yield f"The instant after is {say_moment(after) if after else 'none'}."


def _future(schedule: Schedule, stored: StoredSchedule, why: str | None) -> Explanation:
    """Say whether an instant that is still to come will run, as far as that is known."""
    answer, because = "It is due then", tuple[str, ...]()
    if not schedule.enabled:
        said = "But the schedule is disabled: unless that changes, it will not run."
        because = (said, *remedies("the schedule is disabled", stored.name))
    elif stored.problem is not None:
        because = (f"But it cannot be planned: {stored.problem}.",)
    elif why is not None:
        answer = f"{answer}, and will not run unless that changes: {why}"
        because = tuple(remedies(why, stored.name))
    return Explanation(ran=False, answer=answer, because=because)


def _never(
    schedule: Schedule, stored: StoredSchedule, instant: datetime, why: str | None
) -> str | None:
    """Say why it will not be run any more, as far as that is known."""
    idle = stored.idle
    if not schedule.enabled and idle is not None and instant >= idle.since:
        return f"the schedule is disabled, and was when {say_moment(idle.since)} came"
    if instant <= schedule.changed_at:
        changed = say_moment(schedule.changed_at)
        return (
            f"by the schedule as it is now, which was created, edited or enabled at {changed}: an "
            "instant from before an edit is not run by itself"
        )
    if not schedule.enabled:
        return "the schedule is disabled"
    if schedule.starts_at is not None and instant < schedule.starts_at:
        return f"the schedule starts at {say_moment(schedule.starts_at)}"
    if schedule.ends_at is not None and instant > schedule.ends_at:
        return f"the schedule ended at {say_moment(schedule.ends_at)}"
    return why if stored.problem is None else f"it cannot be planned: {stored.problem}"


def _not_yet(instant: datetime, last: LastClaim | None) -> Explanation:
    """Distinguish a schedule that is held or refused from schedulers that are not there."""
    if last is None or last.at < instant:
        answer = "It did not run yet: no scheduler has claimed anything since. Is one running?"
        because = (
            "If one is, its log says why it cannot: `schedule.held`, say, or a server is away."
        )
        return Explanation(ran=False, answer=answer, because=(because,))
    return Explanation(
        ran=False,
        answer=f"It did not run yet: schedulers claim others, and not this one (the last {last})",
        because=(
            "Its rows are held by another session, or refused, if it stays so.",
            f"{LOOK_FOR_HELD[0].upper()}{LOOK_FOR_HELD[1:]}.",
        ),
    )


def _forgotten(instant: datetime, now: datetime) -> str:
    if now - instant > Retention().completed:
        days = Retention().completed.days
        return f"The ledger has no record of it; records of runs are removed after {days} days"
    return "The ledger has no record of it, though it was due: its row must have been removed"


#: So many runs of one minute are looked through.
_LOOKED_AT = 200
_MINUTE = timedelta(minutes=1)


def begun_at(name: str, instant: datetime, records: RecordsPort) -> Execution | None:
    """Find the run that began exactly then, and not because the schedule was due."""
    return next((run for run in _begun(name, instant, records) if run.due_at == instant), None)


def begun_beside(name: str, instant: datetime, records: RecordsPort) -> Iterator[str]:
    """Tell of the runs that began in that minute, and not because the schedule was due."""
    for run in _begun(name, instant, records):
        yield f"{came_of(run)}, at {say_moment(run.due_at)}: execution {run.id}, {run.state}."


def _begun(name: str, instant: datetime, records: RecordsPort) -> Iterator[Execution]:
    minute = instant.replace(second=0, microsecond=0)
    # Such a run is claimed when it is asked for.
    in_minute = ExecutionFilter(
        schedule=name, since=minute, until=minute + _MINUTE, limit=_LOOKED_AT
    )
    for run in records.executions(in_minute):
        if trigger_of(run.key) not in {Trigger.TIME, Trigger.BACKFILL}:
            yield run


#: By how a reason begins. The reasons are made in `domain/schedules`.
_REMEDIES: Final = {
    "paused": "`cronhare schedules resume {name}` ends the pause, if it still lasts.",
    "calendar": "Its skip_on names that calendar: without the day there, or the name, it runs.",
    "in no window": "Its only_on lets it run in those calendars' windows alone.",
    "blackout": "Its blackout has that window: without it, it runs.",
    "expired": "A longer expires lets it begin later; `cronhare queues` has how much waits.",
    "max_runs": "A larger max_runs lets it go on.",
    "missed, and the misfire policy is skip": 'misfire = "once" or "all" catches up.',
    "missed, and caught up": 'misfire = "all" runs each of them.',
    "missed, and more": "A larger misfire.cap catches up more at once.",
    "missed, and older": "A longer misfire.window catches up from further back.",
    "missed: more than": "Run a scheduler without such gaps; so many are not looked at one by one.",
    "missed: at least": 'A smaller gap is counted in full; misfire = "all" runs some of them.',
    "overlap": 'overlap = "allow" lets runs begin beside one that has not ended.',
    "the schedule was edited": "Edits hold from their moment on: none before it runs by itself.",
    "disabled": "It is on again since that edit, or off for another reason.",
    "ended": "A later ends_at, or none, lets it go on.",
    "broken": "The row is mended by now: `cronhare check` tells such faults before they are saved.",
    "the schedule is disabled": "`cronhare schedules enable {name}` switches it on.",
    "the schedule ended": "A later ends_at, or none, lets it go on.",
    "the schedule starts": "An earlier starts_at, or none, lets it begin sooner.",
    "it cannot be planned": "Mend what it says; `cronhare doctor` lists all such schedules.",
}


def remedies(reason: str, name: str) -> Iterator[str]:
    """Say what would change *reason* for the schedule *name*, from the next instant on."""
    for beginning, remedy in _REMEDIES.items():
        if reason.startswith(beginning):
            yield remedy.format(name=name)
            return
