"""What runs again on request: executions that ended badly, and past due instants of a schedule.

A backfill has its schedule's times, when it starts and ends, its calendars and blackout windows, as
on those days it is not to run. What says that an instant of the present does not run holds not: a
pause, `enabled`, misfire, `expires`, `max_runs`. A run that has begun is one like any other.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs
import msgspec

from ..execution import REPLAYABLE, Execution, Graces, State
from ..retries.policy import RetryPolicy
from ..schedules.keys import backfill_key, is_standalone
from ..schedules.schedule import CLEANUP_NAME, BrokenSchedule, Schedule
from ..schedules.skips import Circumstances
from .claims import claim
from .orders import moment_of_second, second_of

#: How a row of the archive is resolved whose execution runs again.
REPLAYED: Final = "replayed"

#: What people ask for is overdue from the start, so that the next reconciler publishes it.
ALREADY_OVERDUE: Final = timedelta(days=1)


def begins_by_hand(now: datetime, *, head_start: timedelta) -> datetime:
    """Say when something began to wait that a person asks for.

    It is overdue: at once, or after the *head start* of whoever claims it and sends it as well.
    """
    return now - (Graces().claimed - head_start if head_start else ALREADY_OVERDUE)


def why_not_replayed(execution: Execution) -> str | None:
    """Say why an execution may not be replayed, and what would have to change."""
    if execution.problem is not None:
        return f"its row is broken: {execution.problem}. Mend it by hand, then replay it"
    if execution.state not in REPLAYABLE:
        return f"it is {execution.state}"
    if is_standalone(execution.queue):
        return "it is a run of what stays alive: its worker begins the next one. Discard it"
    if execution.task.is_system and execution.schedule_name != CLEANUP_NAME:
        return f"its task is the system's own, which runs for {CLEANUP_NAME} alone. Discard it"
    return None


@attrs.frozen(kw_only=True)
class Allowance:
    """How often a replay may be tried: *attempts* in all, or as its policy says.

    *policy* holds for executions without one of their own (C35 in docs/compatibility.md).
    """

    attempts: int | None = None
    policy: RetryPolicy = attrs.field(factory=RetryPolicy)

    def policy_of(self, execution: Execution) -> RetryPolicy | None:
        if self.attempts is None:
            return execution.retry
        return attrs.evolve(execution.retry or self.policy, attempts=self.attempts)


DEFAULT_ALLOWANCE: Final = Allowance()


def replays(
    asked: Iterable[tuple[int, Execution | None]],
    *,
    now: datetime,
    allowance: Allowance,
    head_start: timedelta,
) -> Iterator[tuple[int, Execution, Execution]]:
    """Replay those that may be, at once.

    *asked* pairs the ids of archive rows, oldest first, with their executions; each answer is such
    an id, the execution before, and after. Of several rows of one execution the oldest counts.
    """
    begins = begins_by_hand(now, head_start=head_start)
    taken = set[int]()
    for archived_id, execution in asked:
        if execution is None or execution.id in taken or why_not_replayed(execution) is not None:
            continue
        taken.add(execution.id)
        yield archived_id, execution, replay(execution, begins=begins, allowance=allowance)


def replay(execution: Execution, *, begins: datetime, allowance: Allowance) -> Execution:
    """Make an execution that ended badly claimed again, with a fresh retry allowance.

    Whoever asked for its end before meant what was then; and who wants it now wants it however late
    it is, as a backfill: it expires no more.
    """
    return msgspec.structs.replace(
        execution,
        state=State.CLAIMED,
        version=execution.version + 1,
        attempt=execution.attempt + 1,
        deaths=0,
        crashes=(),
        cancel_requested=False,
        last_error=None,
        published_at=None,
        started_at=None,
        finished_at=None,
        next_attempt_at=begins,
        check_at=begins,
        expires_at=None,
        retry=allowance.policy_of(execution),
    )


#: The most due instants of a backfill.
MOST_INSTANTS: Final = 100_000

#: Why what stays alive has none: a past instant would have it a second time.
NOT_BESIDE: Final = "it stays alive, one run at a time: its past instants would run beside that"


def may_be_filled_up_to(
    last: int, *, is_planned: bool, next_due: datetime | None, now: datetime
) -> int | None:
    """Give the last second whose instant no scheduler is still to claim, *last* at most.

    None while no scheduler has looked at the schedule's newest edit (*is_planned*). From the plan's
    cursor (*next_due*) on instants are the schedulers'.
    """
    if not is_planned:
        return None
    return min(last, second_of(now if next_due is None else min(next_due, now)) - 1)


def instants(
    schedule: Schedule, circumstances: Circumstances, *, first: int, last: int
) -> Iterator[tuple[datetime, str | None]]:
    """Yield what was due from the *first* to the *last* second, and why it is left out, if it is.

    A calendar or a blackout window may keep it from running that day.
    """
    times = msgspec.structs.replace(schedule, enabled=True)
    after = moment_of_second(first) - timedelta(microseconds=1)
    end = moment_of_second(last)
    while (due := times.next(after)) is not None and due <= end:
        yield due, circumstances.why_not_that_day(schedule, due)
        after = due


def left_out(
    schedule: Schedule, circumstances: Circumstances, instant: datetime
) -> tuple[bool, str | None]:
    """Tell whether an instant is among the `instants`, and why it is left out, if it is."""
    if instant.microsecond:
        return False, None  # a row says so: after the last moment there is no second either
    second = second_of(instant)
    for due, why_not in instants(schedule, circumstances, first=second, last=second):
        return due == instant, why_not
    return False, None


def left_out_by(reasons: Iterable[str]) -> Sequence[str]:
    """Name the calendars and blackout windows that instants are left out by, each once."""
    by_days = "calendar "
    return sorted({one.split(": ")[0] if one.startswith(by_days) else one for one in reasons})


def why_not_filled(schedule: Schedule | BrokenSchedule | None, circumstances: Circumstances) -> str:
    """Say why nothing of a schedule can be run; empty if it can."""
    if schedule is None:
        return "the schedule is gone"
    if isinstance(schedule, BrokenSchedule):
        return f"its row is broken: {schedule.problem}"
    if schedule.is_system:
        return "the schedule is the system's own"
    if is_standalone(schedule.queue):
        return NOT_BESIDE
    return circumstances.problem_with(schedule) or ""


def claim_past(
    schedule: Schedule,
    due: datetime,
    *,
    now: datetime,
    node: str,
    begins: datetime,
    allowance: Allowance,
) -> Execution:
    """Describe the claim of a past instant; it begins at *begins*, and never expires."""
    due = due.astimezone(UTC)
    run = claim(schedule, backfill_key(due), due=due, now=now, node=node, begins=begins)
    return msgspec.structs.replace(run, retry=allowance.policy_of(run))
