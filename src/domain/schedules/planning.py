"""Which due instants run, which do not and why, and what is due next: a pure decision.

An instant that is claimed within the grace runs on time, whatever the misfire policy. Older ones
were missed: the policy, its window and its cap decide. Every instant that does not run is recorded,
so that "why did it not run at 8:00?" has an answer.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from ..texts.moments import say_moment
from .schedule import MOST_WAITING, BrokenSchedule, Every, MisfirePolicy, OverlapPolicy, Schedule
from .skips import (
    Circumstances,
    Idle,
    Skip,
    idle_from,
    idle_when_broken,
    say_idle,
    skip_between,
    skip_of,
    sort_out,
)

#: A row may commit a while after the time in its updated_at: look back so far.
LATE_COMMITS: Final = timedelta(seconds=60)

#: Every row is compared this often, as the search by time may have missed an edit.
FULL_COMPARISON: Final = timedelta(minutes=10)


#: A claim that is no later counts as on time: after a short stall runs are late, not missed.
GRACE = timedelta(seconds=60)

#: A replica that cannot publish leaves due instants to the others for so long. That is shorter than
#: any grace, so its own claim is still on time.
HEAD_START = timedelta(seconds=10)

#: The grace of an interval schedule is its period, but at least this long, so that a head start
#: does not make it miss. With `GRACE` instead, a one-minute stall of a schedule that is due each
#: second would cause sixty runs at once.
SHORTEST_GRACE = HEAD_START + timedelta(seconds=5)

#: The most missed instants that are counted; of more only the first and the latest are known.
MOST_COUNTED = 10_000

#: A transaction ends once so many instants were looked at: 1,000 schedules that run each minute
#: and are a week behind have ten million, which take most of a minute.
INSTANTS_AT_ONCE = 50_000

#: A due instant waits so long for a replica that can plan it; later only each full comparison
#: looks at it.
SET_ASIDE_AFTER = timedelta(minutes=10)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A due instant that is to run, *delay* later than it is claimed.

    If it *waits*, that is after the runs before it have ended. *missed* counts the missed instants
    that it makes up for, its own among them if that was missed: 0 of most.
    """

    due: datetime
    key: str
    delay: timedelta = timedelta(0)
    waits: bool = False
    missed: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided of one schedule. Without *next_due* it is never due again.

    *problem* says why it cannot be planned at all. *weight* counts the instants that were examined.
    *idle* says why nothing is due though its times would say so.
    """

    runs: tuple[Run, ...] = ()
    skips: tuple[Skip, ...] = ()
    next_due: datetime | None = None
    problem: str | None = None
    idle: Idle | None = None
    weight: int = 1


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of a schedule that have not ended.

    *active* is the oldest that is not held back, *waiting* the oldest that is; *count* counts those
    that are. One of the two ids is there.
    """

    active: int | None = None
    waiting: int | None = None
    count: int = 0

    @property
    def oldest(self) -> int:
        return self.active or self.waiting or 0


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule with the state of its plan.

    *next_due* is the plan's cursor, None if it has none; *idle* and *problem* are as the plan says.
    *edited* says that the row was created, changed or enabled since it was planned. *unfinished*
    tells of its executions that have not ended, looked up where the overlap policy needs it;
    *circumstances* likewise, where there are conditions or a pause.
    """

    schedule: Schedule | BrokenSchedule
    next_due: datetime | None = None
    edited: bool = False
    idle: Idle | None = None
    problem: str | None = None
    unfinished: Unfinished | None = None
    circumstances: Circumstances | None = None


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule's plan says after a look.

    A due instant that no replica could plan is kept as *resume_at*, so that it is not lost; of a
    schedule that is *idle* nothing is resumed.
    """

    next_due: datetime | None = None
    resume_at: datetime | None = None
    problem: str | None = None
    idle: Idle | None = None


def cursor_after(planned: Planned, plan: Plan, now: datetime) -> Cursor:
    """Give what a plan says after a look.

    What this replica cannot plan another one may, with newer zone data or of another release. So
    a due instant stays due for the others, for a while.
    """
    if plan.problem is None:
        return Cursor(next_due=plan.next_due, idle=plan.idle)
    if planned.edited or planned.idle is not None:
        idle = idle_when_broken(planned.next_due, planned.idle)
        return Cursor(problem=plan.problem, idle=idle)
    due = planned.next_due
    if due is not None and now - due < SET_ASIDE_AFTER:
        return Cursor(next_due=due, problem=plan.problem)
    return Cursor(resume_at=due, problem=plan.problem)


#: Plans one schedule: `plan` at an instant, or what a test puts in its place.
Planner = Callable[[Planned], Plan]


def plan_or_problem(planner: Planner, planned: Planned) -> Plan:
    """Ask *planner*; an exception is a problem of that one schedule: see `cursor_after`."""
    try:
        return planner(planned)
    except Exception as error:  # noqa: BLE001 - it must not keep the others from being planned
        return Plan(problem=f"{type(error).__name__}: {error}")


def plan(planned: Planned, now: datetime) -> Plan:
    """Decide what of a schedule runs or is skipped at *now*, and what is due next."""
    schedule = planned.schedule
    if isinstance(schedule, BrokenSchedule):
        return Plan(problem=schedule.problem)
    circumstances = planned.circumstances
    if circumstances is not None and (problem := circumstances.problem_with(schedule)):
        return Plan(problem=problem)
    if planned.edited or planned.next_due is None:
        anew = _within_allowance(_plan_anew(schedule, planned), schedule, circumstances)
        return _accounting_for_idle(anew, schedule, planned)
    if planned.next_due > now:
        return Plan(next_due=planned.next_due)
    due = _plan_due(schedule, planned.next_due, now, circumstances)
    decided = _without_overlap(due, schedule, planned)
    if circumstances is not None:
        decided = _within_allowance(decided, schedule, circumstances)
        decided = _prolonging(decided, schedule, circumstances)
    return decided if decided.next_due is not None else _becoming_idle(decided, planned, now)


def _plan_anew(schedule: Schedule, planned: Planned) -> Plan:
    """Plan from the edit on; what was due before it and not claimed is skipped."""
    abandoned, edited_at = planned.next_due, schedule.changed_at
    if abandoned is None or abandoned > edited_at:
        return Plan(next_due=schedule.next(edited_at))
    reason = f"the schedule was edited at {say_moment(edited_at)}, before this was claimed"
    skip = skip_between(schedule, abandoned, edited_at, reason)
    return Plan(skips=(skip,), next_due=schedule.next(edited_at), weight=skip.count)


def _accounting_for_idle(plan: Plan, schedule: Schedule, planned: Planned) -> Plan:
    before, until = planned.idle, schedule.changed_at
    if plan.next_due is None:
        plan = _becoming_idle(plan, planned, until)
    if before is None or plan.idle == before or before.since > until:
        return plan
    reason = say_idle(before.why, until=until, problem=planned.problem)
    skip = skip_between(schedule, before.since, until, reason)
    weight = plan.weight + skip.count
    return msgspec.structs.replace(plan, skips=(*plan.skips, skip), weight=weight)


def _becoming_idle(plan: Plan, planned: Planned, after: datetime) -> Plan:
    schedule, circumstances = planned.schedule, planned.circumstances
    assert isinstance(schedule, Schedule), "a broken one has no plan"
    left = None if circumstances is None else circumstances.runs_left(schedule)
    left = None if left is None else left - len(plan.runs)
    idle = idle_from(schedule, after, planned.idle, runs_left=left)
    return msgspec.structs.replace(plan, idle=idle)


def _plan_due(
    schedule: Schedule, next_due: datetime, now: datetime, circumstances: Circumstances | None
) -> Plan:
    following = schedule.next(next_due)
    is_alone = now - next_due <= GRACE and (following is None or following > now)
    if is_alone and circumstances is None:
        return Plan(runs=(_run(schedule, next_due),), next_due=following)
    due, uncounted = _due_instants(schedule, next_due, now)
    allowed, refused = sort_out(schedule, due, circumstances, now) if circumstances else (due, ())
    first_on_time = bisect_left(allowed, now - _grace_of(schedule))
    missed, on_time = allowed[:first_on_time], allowed[first_on_time:]
    runs, skips = _catch_up(schedule, missed, on_time, uncounted, now)
    skips = (*([] if uncounted is None else [uncounted]), *refused, *skips)
    is_counted = isinstance(schedule.timing, Every) and circumstances is None
    examined = runs if is_counted else due[:MOST_COUNTED]
    weight = len(examined) + (MOST_COUNTED if uncounted is not None else 0)
    return Plan(runs=runs, skips=skips, next_due=schedule.next(now), weight=weight)


def _grace_of(schedule: Schedule) -> timedelta:
    if isinstance(schedule.timing, Every):
        return min(max(schedule.timing.period, SHORTEST_GRACE), GRACE)
    return GRACE


def _due_instants(
    schedule: Schedule, first: datetime, now: datetime
) -> tuple[Sequence[datetime], Skip | None]:
    """List what is due, oldest first; of very many the oldest are skipped unread."""
    if isinstance(schedule.timing, Every):
        return schedule.timing.between(first, _end(schedule, now)), None
    due: list[datetime] = []
    instant: datetime | None = first
    while instant is not None and instant <= now:
        if len(due) == MOST_COUNTED:
            return _latest_instants(schedule, first, now)
        due.append(instant)
        instant = schedule.next(instant)
    return due, None


def _latest_instants(
    schedule: Schedule, first: datetime, now: datetime
) -> tuple[list[datetime], Skip | None]:
    latest: list[datetime] = []
    instant = schedule.timing.previous(_end(schedule, now) + timedelta(microseconds=1))
    while instant is not None and instant >= first:
        if len(latest) >= schedule.misfire.cap and now - instant > GRACE:
            break
        latest.append(instant)
        instant = schedule.timing.previous(instant)
    if instant is None or instant < first:
        return latest[::-1], None
    reason = f"missed: at least {MOST_COUNTED} instants, counted no further"
    uncounted = Skip(
        first=first,
        last=instant,
        count=MOST_COUNTED,
        key=schedule.timing.key(first),
        reason=reason,
    )
    return latest[::-1], uncounted


def _end(schedule: Schedule, now: datetime) -> datetime:
    return now if schedule.ends_at is None else min(now, schedule.ends_at)


def _catch_up(
    schedule: Schedule,
    missed: Sequence[datetime],
    on_time: Sequence[datetime],
    uncounted: Skip | None,
    now: datetime,
) -> tuple[tuple[Run, ...], tuple[Skip, ...]]:
    """Run what is on time, and of what was missed as much as the policy says."""
    misfire = schedule.misfire
    first_recent = bisect_left(missed, now - misfire.window)
    too_old, recent = missed[:first_recent], missed[first_recent:]
    match misfire.policy:
        case MisfirePolicy.SKIP:
            kept, why = 0, "missed, and the misfire policy is skip"
        case MisfirePolicy.ONCE:
            kept = 0 if on_time else 1
            why = "missed, and caught up by one later run (misfire policy once)"
        case MisfirePolicy.ALL:
            kept = max(misfire.cap - len(on_time), 0)
            why = f"missed, and more than the {misfire.cap} runs that are caught up at once"
    caught_up = recent[len(recent) - kept :] if kept else []
    skipped = recent[: len(recent) - len(caught_up)]
    runs = [_run(schedule, instant, missed=1) for instant in caught_up]
    runs += [_run(schedule, instant) for instant in on_time]
    if misfire.policy is MisfirePolicy.ONCE and recent:
        older = 0 if uncounted is None or too_old else uncounted.count
        runs[0] = msgspec.structs.replace(runs[0], missed=len(recent) + older)
    reasons = (f"missed, and older than the misfire window of {misfire.window}", why)
    missing = zip((too_old, skipped), reasons, strict=True)
    return tuple(runs), tuple(skip_of(schedule, of, reason) for of, reason in missing if of)


def _without_overlap(plan: Plan, schedule: Schedule, planned: Planned) -> Plan:
    if schedule.overlap is OverlapPolicy.ALLOW or not plan.runs:
        return plan
    others = planned.unfinished
    match schedule.overlap:
        case OverlapPolicy.SKIP:
            runs = () if others is not None else plan.runs[:1]
            refused = plan.runs[len(runs) :]
            other = "the one before" if others is None else f"execution {others.oldest}"
            why = f"{other} has not ended"
        case OverlapPolicy.CANCEL_PREVIOUS:  # the others are asked to end
            missed = sum(run.missed for run in plan.runs)
            waits = others is not None
            runs = (msgspec.structs.replace(plan.runs[-1], waits=waits, missed=missed),)
            refused = plan.runs[:-1]
            why = "a later run takes its place"
        case _:
            runs, refused, why = _in_line(schedule, plan.runs, others)
    reason = f"overlap: {why} (overlap policy {schedule.overlap.value})"
    skips = tuple(skip_of(schedule, [run.due], reason) for run in refused)
    return msgspec.structs.replace(plan, runs=runs, skips=plan.skips + skips)


def _in_line(
    schedule: Schedule, runs: tuple[Run, ...], others: Unfinished | None
) -> tuple[tuple[Run, ...], tuple[Run, ...], str]:
    """Let the first run at once if it can, and as many wait as may; say why not the others."""
    first = () if others is not None else runs[:1]
    is_one = schedule.overlap is OverlapPolicy.QUEUE_ONE
    most, waiting = 1 if is_one else MOST_WAITING, 0 if others is None else others.count
    rest = runs[len(first) :]
    room = max(most - waiting, 0)
    lined_up = tuple(msgspec.structs.replace(run, waits=True) for run in rest[:room])
    if not is_one:
        why = f"{most:,} runs wait already"
    elif others is not None and others.waiting is not None:
        why = f"execution {others.waiting} waits already"
    else:
        why = "the one before waits already"
    return (*first, *lined_up), rest[room:], why


def _within_allowance(plan: Plan, schedule: Schedule, circumstances: Circumstances | None) -> Plan:
    """Skip what is due beyond the last run that is allowed: after that one none is due."""
    left = None if circumstances is None else circumstances.runs_left(schedule)
    if left is None or left > len(plan.runs):
        return plan
    beyond = [run.due for run in plan.runs[left:]]
    reason = "max_runs: the runs that it is allowed are over"
    refused = (skip_of(schedule, beyond, reason),) if beyond else ()
    return msgspec.structs.replace(
        plan, runs=plan.runs[:left], skips=plan.skips + refused, next_due=None
    )


def _prolonging(plan: Plan, schedule: Schedule, circumstances: Circumstances) -> Plan:
    newest = circumstances.newest_skip
    if newest is None or not plan.skips:
        return plan
    following = schedule.next(newest.last)
    skips = tuple(
        msgspec.structs.replace(one, prolongs=newest.key)
        if one.first == following and one.reason == newest.reason
        else one
        for one in plan.skips
    )
    return msgspec.structs.replace(plan, skips=skips)


def _run(schedule: Schedule, due: datetime, *, missed: int = 0) -> Run:
    key = schedule.timing.key(due)
    return Run(due=due, key=key, delay=_spread(schedule, key), missed=missed)


def _spread(schedule: Schedule, key: str) -> timedelta:
    """Delay a run within the schedule's jitter, equally on every replica."""
    if not schedule.jitter:
        return timedelta(0)
    digest = blake2b(f"{schedule.id} {key}".encode(), digest_size=8).digest()
    return schedule.jitter * (int.from_bytes(digest) / 2**64)
