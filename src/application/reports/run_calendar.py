"""A calendar of a schedule's runs: in hours where it runs often, in days where it does not."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import attrs

from cronhare.domain.execution import State

#: Days of a calendar in hours, and weeks of one in days.
DAYS: Final = 7
WEEKS: Final = 20

#: With a median gap below this it runs often.
_OFTEN: Final = timedelta(hours=20)

#: What a cell is about, if several things happened in it: the first of these.
_WORST: Final = (
    State.QUARANTINED,
    State.FAILED,
    State.RUNNING,
    State.RETRYING,
    State.HELD,
    State.CLAIMED,
    State.PUBLISHED,
    State.CANCELLED,
    State.SUCCEEDED,
    State.HANDED_OVER,
    State.SKIPPED,
)


class Unit(StrEnum):
    """What a cell stands for."""

    HOUR = "hour"
    DAY = "day"


@attrs.frozen
class Moment:
    """A run of a calendar: when it was due, and how it stands."""

    due_at: datetime
    state: State


@attrs.frozen(kw_only=True)
class Cell:
    """An hour, or a day, from *begins* to *ends*; *instant* is what is to be explained of it.

    By the clock of the zone: what that leaves out is empty, what it shows twice is twice as long.

    *state* is the worst of its runs; None if it had none. *missing* says that it was due by the
    text that it has now, and has no run; *known* is false where runs are no more kept, or the cell
    lies ahead.
    """

    begins: datetime
    ends: datetime
    instant: datetime
    runs: int
    state: State | None
    missing: bool
    known: bool


@attrs.frozen(kw_only=True)
class RunCalendar:
    """Rows of cells: a row is a day of hours, or a week of days."""

    unit: Unit
    rows: Sequence[tuple[date, Sequence[Cell]]]


def lay_out(
    moments: Sequence[Moment],
    *,
    zone: ZoneInfo,
    now: datetime,
    since: datetime,
    due_after: Callable[[datetime], datetime | None],
) -> RunCalendar:
    """Lay out runs, oldest first, by the clock of a zone; the newest row is the last.

    Before *since* nothing is known: it was made then, or older runs are kept no more. *due_after*
    gives the first due instant strictly after another.
    """
    today = now.astimezone(zone).date()
    often = _runs_often(moments)
    unit = Unit.HOUR if often else Unit.DAY
    found = defaultdict[datetime, list[Moment]](list)
    for moment in moments:
        found[_begin(moment.due_at, zone, unit)].append(moment)

    def cell(begins: datetime, ends: datetime) -> Cell:
        runs = found.get(begins, []) if begins < ends else []
        worst = min(runs, key=lambda run: _WORST.index(run.state), default=None)
        due = None if runs else due_after(begins - timedelta(seconds=1))
        is_due = due is not None and due < ends
        known = since <= (due if due is not None and is_due else begins) and begins <= now
        return Cell(
            begins=begins,
            ends=ends,
            instant=worst.due_at if worst else due if due is not None and is_due else begins,
            runs=len(runs),
            state=worst.state if worst else None,
            missing=is_due and known and due is not None and due < now,
            known=known or bool(runs),
        )

    rows = _hours(today, zone) if often else _days(today, zone)
    return RunCalendar(
        unit=unit, rows=[(first, [cell(*each) for each in row]) for first, row in rows]
    )


def _runs_often(moments: Sequence[Moment]) -> bool:
    due = sorted(moment.due_at for moment in moments)
    gaps = sorted(after - before for before, after in itertools.pairwise(due))
    return bool(gaps) and gaps[len(gaps) // 2] < _OFTEN


def _begin(at: datetime, zone: ZoneInfo, unit: Unit) -> datetime:
    local = at.astimezone(zone)
    if unit is Unit.HOUR:
        return _instant(local.date(), local.hour, zone)
    return _instant(local.date(), 0, zone)


def _instant(day: date, hour: int, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC)


def _hours(today: date, zone: ZoneInfo) -> Iterator[tuple[date, list[tuple[datetime, datetime]]]]:
    for ago in reversed(range(DAYS)):
        day = today - timedelta(days=ago)
        begins = [_instant(day, hour, zone) for hour in range(24)]
        begins.append(_instant(day + timedelta(days=1), 0, zone))
        # An hour that a clock leaves out ends as it begins; one that comes twice is a long one.
        begins = [*itertools.accumulate(reversed(begins), min)][::-1]
        yield day, list(itertools.pairwise(begins))


def _days(today: date, zone: ZoneInfo) -> Iterator[tuple[date, list[tuple[datetime, datetime]]]]:
    monday = today - timedelta(days=today.weekday())
    for ago in reversed(range(WEEKS)):
        first = monday - timedelta(weeks=ago)
        begins = [_instant(first + timedelta(days=day), 0, zone) for day in range(8)]
        yield first, list(itertools.pairwise(begins))
