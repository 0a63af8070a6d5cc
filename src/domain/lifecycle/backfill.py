"""Backfills: past due instants of a schedule that run on request, whatever kept them from it.

Its times decide, and when it starts and ends; its calendars and blackout windows hold, as on those
days it is not to run. What says that an instant of the present does not run holds not: a pause,
`enabled`, misfire, `expires`, `max_runs`. A run that has begun is one like any other.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from ..execution import Execution
from ..schedules.keys import backfill_key, is_standalone
from ..schedules.schedule import BrokenSchedule, Schedule
from ..schedules.skips import Circumstances
from .claims import claim
from .orders import moment_of_second, second_of
from .replay import Allowance

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
