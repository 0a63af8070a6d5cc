"""Why nothing of a schedule is due though its times would say so, and since when: a pure decision.

While it is so no row is written: the first instant that does not run is kept beside its plan. The
next edit that ends it leaves one row for all of them.
"""

import enum
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ..texts.moments import say_moment
from ..texts.printable import shortened
from .every import Every
from .schedule import Schedule

#: So many instants of a stretch that is over are counted. 10,000 schedules that are enabled
#: together, each with as many, take six seconds.
MOST_COUNTED: Final = 100

_MOMENT: Final = timedelta(microseconds=1)
_LONGEST_PROBLEM: Final = 300


class Why(enum.StrEnum):
    """Why no instant of a schedule is to come."""

    DISABLED = "disabled"
    ENDED = "ended"
    MAX_RUNS = "max_runs"
    BROKEN = "broken"


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is due any more, until an edit. *since* is the first instant that does not run."""

    why: Why
    since: datetime


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Instants from *first* to *last* that did not run; there may be more than *count*."""

    first: datetime
    last: datetime
    count: int


def idle_from(
    schedule: Schedule, after: datetime, before: Idle | None, *, runs_left: int | None = None
) -> Idle | None:
    """Say why a schedule that is not due after *after* is idle; it may have been so *before*.

    None if its times are over, or it has none.
    """
    if (why := _why(schedule, runs_left)) is None:
        return None
    if before is not None and before.why is why:
        return before
    if schedule.starts_at is not None and schedule.starts_at > after:
        after = schedule.starts_at - _MOMENT
    if why is Why.ENDED and schedule.ends_at is not None:
        after = max(after, schedule.ends_at)
    since = schedule.timing.next(after)
    return None if since is None else Idle(why=why, since=since)


def idle_when_broken(due: datetime | None, before: Idle | None) -> Idle | None:
    """Say since when a schedule that an edit has broken does not run: from what was *due* next."""
    if before is not None and before.why is Why.BROKEN:
        return before
    since = due if before is None else before.since
    return None if since is None else Idle(why=Why.BROKEN, since=since)


def say_idle(why: Why, *, until: datetime, problem: str | None) -> str:
    """Say why instants did not run, once it is over; *problem* is why a row was broken.

    >>> from datetime import UTC
    >>> say_idle(Why.DISABLED, until=datetime(2026, 3, 2, 12, tzinfo=UTC), problem=None)
    'disabled: it was off, until an edit at 2026-03-02 12:00:00Z'
    """
    match why:
        case Why.DISABLED:
            what = "it was off"
        case Why.ENDED:
            what = "its ends_at had passed"
        case Why.MAX_RUNS:
            what = "the runs that it is allowed were over"
        case Why.BROKEN:
            what = shortened(problem or "its row could not be understood", _LONGEST_PROBLEM)
    return f"{why}: {what}, until an edit at {say_moment(until)}"


def stretch_between(schedule: Schedule, first: datetime, until: datetime) -> Stretch:
    """Find the instants from *first*, which was due by a row that is gone, to *until*."""
    timing = schedule.timing
    if isinstance(timing, Every):
        later = timing.between(first + _MOMENT, until)
        return Stretch(first=first, last=later[-1] if later else first, count=1 + len(later))
    last, count, instant = first, 1, timing.next(first)
    while instant is not None and instant <= until:
        if count == MOST_COUNTED:
            last = timing.previous(until + _MOMENT) or last
            break
        last, count = instant, count + 1
        instant = timing.next(instant)
    return Stretch(first=first, last=last, count=count)


def _why(schedule: Schedule, runs_left: int | None) -> Why | None:
    if not schedule.enabled:
        return Why.DISABLED
    if runs_left == 0:
        return Why.MAX_RUNS
    return None if schedule.ends_at is None else Why.ENDED
