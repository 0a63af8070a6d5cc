"""New executions: claims of due instants, of manual runs, of messages and of past instants; skips.

And replays: which executions that ended badly may run again, and as what.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
import msgspec

from ..execution import REPLAYABLE, Execution, Graces, State
from ..nodes import container_id
from ..retries.policy import RetryPolicy
from ..schedules.catalog import NoListener
from ..schedules.keys import backfill_key, is_standalone
from ..schedules.planning import Run, Unfinished
from ..schedules.schedule import CLEANUP_NAME, BrokenSchedule, ByHand, Schedule
from ..schedules.skips import Circumstances, Skip
from ..schedules.task import TaskRef
from .gates import schedule_gate
from .orders import moment_of_second, second_of


class NotToBeRun(LookupError):
    """There is no such schedule, or its row names no task that can be run."""


class RunsAlready(NotToBeRun):
    """It stays alive, and the one run that it has at a time has not ended."""


def claim(
    schedule: Schedule, key: str, *, due: datetime, now: datetime, node: str, begins: datetime
) -> Execution:
    """Describe the claim of a run of *schedule* as it is now; the ledger gives it an id."""
    is_event = schedule.topic is not None or schedule.no_listener is not NoListener.COMPLETE
    return Execution(
        id=0,
        scheduler_id=schedule.id,
        schedule_name=schedule.name,
        key=key,
        state=State.CLAIMED,
        source=schedule.source,
        task_name=schedule.task_name,
        task=schedule.task,
        params=schedule.params,
        queue=schedule.queue,
        attempt=1,
        deaths=0,
        version=1,
        due_at=due,
        executed_at=now,
        container_id=container_id(node),
        retry=schedule.retry,
        timeout=schedule.timeout,
        next_attempt_at=begins,
        check_at=begins,
        topic=schedule.topic,
        no_listener=schedule.no_listener.value if is_event else None,
        concurrency_key=_concurrency_key(schedule, schedule.params),
        overlap_policy=schedule.overlap.value if schedule.overlap.waits else None,
    )


def _concurrency_key(schedule: Schedule, params: str) -> str | None:
    return None if schedule.concurrency is None else schedule.concurrency.key_of(params)


def claim_run(schedule: Schedule, run: Run, *, now: datetime, node: str) -> Execution:
    """Describe the claim of a due instant, which begins after its jitter, or is held back."""
    claimed = claim(schedule, run.key, due=run.due, now=now, node=node, begins=now + run.delay)
    if schedule.conditions is not None and (expires := schedule.conditions.expires) is not None:
        claimed = msgspec.structs.replace(claimed, expires_at=run.due + expires)
    if run.missed:
        claimed = msgspec.structs.replace(claimed, missed=run.missed)
    if not run.waits:
        return claimed
    return msgspec.structs.replace(claimed, state=State.HELD, held_by=schedule_gate(schedule.id))


def skip(schedule: Schedule, skipped: Skip, *, now: datetime, node: str) -> Execution:
    return msgspec.structs.replace(
        claim(schedule, skipped.key, due=skipped.first, now=now, node=node, begins=now),
        state=State.SKIPPED,
        next_attempt_at=None,
        check_at=None,
        finished_at=now,
        last_error=skipped.reason,
        last_due_at=skipped.last,
        missed=skipped.count,
    )


def claim_by_hand(
    schedule: Schedule | BrokenSchedule | None,
    scheduler_id: int,
    *,
    key: str,
    now: datetime,
    node: str,
    begins: datetime | None = None,
    task: TaskRef | None = None,
    **changes: Any,  # noqa: ANN401 - fields of the execution
) -> Execution:
    """Describe the claim of a run outside the plan; *changes* replace what the schedule says.

    A message brings its own *task*. If its number is not the schedule's, its name is unknown; its
    source is the schedule's, as a message cannot reach a task of another source.

    Raises:
        NotToBeRun: there is no such schedule, it is broken, or it is the system's own, for which
            no message may name a task.
    """
    if schedule is None:
        raise NotToBeRun(f"there is no schedule with the id {scheduler_id}")
    if isinstance(schedule, BrokenSchedule):
        if task is None:
            raise NotToBeRun(f"schedule {schedule.name} cannot be run: {schedule.problem}")
        schedule = _stand_in(schedule)
    if task is not None and schedule.is_system:
        raise NotToBeRun(f"schedule {schedule.name} is the system's own")
    run = claim(schedule, key, due=now, now=now, node=node, begins=begins or now)
    if is_standalone(run.queue):  # a message in another queue changes nothing about that
        changes.pop("queue", None)
    if task not in {None, run.task}:
        changes |= {"task": task, "task_name": None, "topic": None}
    if "params" in changes:
        changes["concurrency_key"] = _concurrency_key(schedule, changes["params"])
    return msgspec.structs.replace(run, **changes)


def refuse_beside(unfinished: Unfinished | None) -> None:
    """Raise `RunsAlready` for a run of what stays alive beside one that has not ended."""
    if unfinished is not None:
        id_ = unfinished.oldest
        raise RunsAlready(
            f"it stays alive, one run at a time, and it has execution {id_}; "
            f"`cronhare executions cancel {id_}` ends that, and it begins again by itself"
        )


def _stand_in(broken: BrokenSchedule) -> Schedule:
    # A message that brings its own task and params can be run in spite of a broken row.
    return Schedule(
        id=broken.id,
        name=broken.name,
        task=TaskRef("", 0),
        timing=ByHand(),
        changed_at=broken.changed_at,
        source=broken.source,
    )


# Replays

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


# Backfills: past due instants of a schedule that run on request, whatever kept them from it.
# The times, start and end of the schedule decide. Its calendars and blackout windows hold, as it is
# not to run on those days. A pause, `enabled`, misfire, `expires` and `max_runs` do not: they are
# about instants of the present. A run that has begun is one like any other.

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
    """Yield what was due from *first* to *last* second, and why it is left out, if it is."""
    times = msgspec.structs.replace(schedule, enabled=True)
    after = moment_of_second(first) - timedelta(microseconds=1)
    end = moment_of_second(last)
    while (due := times.next(after)) is not None and due <= end:
        yield due, circumstances.why_not_that_day(schedule, due)
        after = due


def left_out(
    schedule: Schedule, circumstances: Circumstances, instant: datetime
) -> tuple[bool, str | None]:
    if instant.microsecond:
        return False, None  # a row says so: after the last moment there is no second either
    second = second_of(instant)
    for due, why_not in instants(schedule, circumstances, first=second, last=second):
        return due == instant, why_not
    return False, None


def left_out_by(reasons: Iterable[str]) -> Sequence[str]:
    by_days = "calendar "
    return sorted({one.split(": ")[0] if one.startswith(by_days) else one for one in reasons})


def why_not_filled(schedule: Schedule | BrokenSchedule | None, circumstances: Circumstances) -> str:
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
