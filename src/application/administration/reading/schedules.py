"""Schedules as people look at them: lists, the runs to come and those of the past, calendars."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Final, Self
from zoneinfo import ZoneInfo

import attrs

from cronhare.application.reports.clock_effects import ClockEffect, EffectKind, clock_effects
from cronhare.application.reports.run_calendar import Moment, RunCalendar, lay_out
from cronhare.domain.cron import CronExpression, Gap, clock_changes, find_zone
from cronhare.domain.execution import State
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import DEFAULT_ZONE, Recurring, Schedule, Timing
from cronhare.ports.records import OverviewPort, RecordsPort, Run
from cronhare.ports.schedules import (
    ScheduleFilter,
    ScheduleListPort,
    ScheduleStorePort,
    StoredCalendar,
    StoredSchedule,
)

from ..views.schedules import ClockEffectView, DueView, SchedulePage, ScheduleView
from .lookup import Names, find_schedule, understood

#: So many runs are looked at: as many as are kept of what succeeded, unless settings say otherwise.
MOST_RUNS: Final = 1_000


@attrs.frozen(kw_only=True)
class HistoryView:
    """The newest runs, oldest first; seconds that half of those that succeeded took, and 95 %."""

    runs: Sequence[Run]
    calendar: RunCalendar
    succeeded: int
    failed: int
    p50_seconds: float | None
    p95_seconds: float | None


@attrs.define(kw_only=True, eq=False)
class ScheduleViews:
    """Shows schedules with their last runs, and with the names of their tasks: see `Names.named`.

    *now* is the ledger's clock, *policy* that of schedules without one.
    """

    _schedules: ScheduleStorePort
    _lists: ScheduleListPort
    _overview: OverviewPort
    _records: RecordsPort
    _names: Names
    _policy: RetryPolicy
    _now: Callable[[], datetime]

    def of(self, found: Sequence[StoredSchedule]) -> Sequence[ScheduleView]:
        last, now = self._records.last_runs({stored.id for stored in found}), self._now()
        return self._names.named_schedules(
            [
                ScheduleView.of(stored, last.get(stored.id), policy=self._policy, now=now)
                for stored in found
            ]
        )

    def of_one(self, stored: StoredSchedule) -> ScheduleView:
        [shown] = self.of([stored])
        return shown

    def page(self, which: ScheduleFilter, *, after: str | None = None, limit: int) -> SchedulePage:
        """List schedules by name, those that come *after* one; see `SchedulePage.after`."""
        found = self._lists.page(which, after=after, limit=limit + 1, now=self._now())
        if not found and which.source is not None:
            self._names.expect_source(which.source)
        shown = self.of(found[:limit])
        return SchedulePage(
            schedules=shown, after=shown[-1].name if shown and len(found) > limit else None
        )

    def count(self, which: ScheduleFilter, *, first: SchedulePage | None = None) -> int:
        """Count schedules, up to one more than `MOST_COUNTED`.

        The *first* page of them, where it is known, may have them all: what is searched for is
        looked for in very many rows, and seldom found in more.
        """
        if first is not None and first.after is None:
            return len(first.schedules)
        return self._lists.count(which, now=self._now())

    def history(self, name: str) -> HistoryView:
        stored, now = find_schedule(self._schedules, name), self._now()
        runs = self._overview.recent([stored.id], each=MOST_RUNS).get(stored.id, ())
        took = sorted(
            run.seconds for run in runs if run.state is State.SUCCEEDED and run.seconds is not None
        )
        return HistoryView(
            runs=runs,
            calendar=_calendar(stored, runs, now),
            succeeded=sum(run.state is State.SUCCEEDED for run in runs),
            failed=sum(run.state in {State.FAILED, State.QUARANTINED} for run in runs),
            p50_seconds=percentile(took, 50),
            p95_seconds=percentile(took, 95),
        )


#: So far ahead the changes of a clock are told.
_AHEAD: Final = timedelta(days=366)

#: So far from a change of the clock nothing is moved by it or comes twice.
_FAR: Final = timedelta(hours=4)


def preview(
    what: Timing | Schedule, zone: ZoneInfo, *, after: datetime, count: int
) -> Iterator[DueView]:
    """Yield *count* runs after *after*, as far as there are so many; and what is skipped between.

    Of a schedule that is by its row alone: a pause, say, is not looked at. *zone* is that of the
    local times.
    """
    timing = what.timing if isinstance(what, Schedule) else what
    for _ in range(count):
        due = what.next(after)
        if due is None:
            return
        for skipped in _skipped(timing, after, due):
            yield _view(skipped.at, zone, [skipped], runs=False)
        yield _view(due, zone, _effects_on(timing, due), runs=True)
        after = due


def next_effects(draft: ScheduleDraft, *, now: datetime) -> Sequence[ClockEffect]:
    """Give what the clock does next to a schedule's fixed times: the first of each kind."""
    if draft.schedule is None:
        return ()
    expression = CronExpression.parse(draft.schedule, draft.name)
    if expression.wildcard:
        return ()
    changes, zone = clock_changes(draft.gap, draft.fold), find_zone(draft.timezone)
    first = dict[EffectKind, ClockEffect]()
    for effect in clock_effects(expression, zone, changes, after=now, until=now + _AHEAD):
        first.setdefault(effect.kind, effect)
    return tuple(first.values())


def _skipped(timing: Timing, after: datetime, until: datetime) -> Iterator[ClockEffect]:
    if isinstance(timing, Recurring) and timing.changes.gap is Gap.SKIP:
        found = clock_effects(
            timing.expression, timing.zone, timing.changes, after=after, until=until
        )
        yield from (effect for effect in found if effect.kind is EffectKind.SKIPPED)


def _effects_on(timing: Timing, due: datetime) -> Sequence[ClockEffect]:
    if not isinstance(timing, Recurring):
        return ()
    near = clock_effects(
        timing.expression, timing.zone, timing.changes, after=due - _FAR, until=due + _FAR
    )
    return [effect for effect in near if effect.at == due and effect.kind is not EffectKind.SKIPPED]


def _view(at: datetime, zone: ZoneInfo, effects: Sequence[ClockEffect], *, runs: bool) -> DueView:
    clock = tuple(map(ClockEffectView.of, effects))
    return DueView(utc=at, local=at.astimezone(zone), runs=runs, clock=clock)


@attrs.frozen(kw_only=True)
class WindowView:
    """A window as its jobs file has it, and what people call it."""

    during: str
    label: str | None


@attrs.frozen(kw_only=True)
class CalendarView:
    """A calendar of the jobs file *source*. Of a broken one there is no more than its *problem*."""

    name: str
    source: str | None
    timezone: str | None
    windows: Sequence[WindowView]
    problem: str | None

    @classmethod
    def of(cls, stored: StoredCalendar) -> Self:
        draft = stored.draft
        windows = () if draft is None else draft.windows
        return cls(
            name=stored.name,
            source=stored.source,
            timezone=None if draft is None else draft.timezone,
            windows=[WindowView(during=during, label=label) for during, label in windows],
            problem=stored.problem,
        )


def percentile(ordered: Sequence[float], part: int) -> float | None:
    """Give the smallest value that so many percent of the others do not exceed.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95), percentile([], 50)
    (2, 4, None)
    >>> percentile([1, 2, 3, 4, 5], 50)
    3
    """
    if not ordered:
        return None
    return ordered[max(0, ceil(len(ordered) * part / 100) - 1)]


def _calendar(stored: StoredSchedule, runs: Sequence[Run], now: datetime) -> RunCalendar:
    schedule = understood(stored) if stored.problem is None else None
    zone = stored.draft.timezone if stored.draft else DEFAULT_ZONE
    is_cut = len(runs) == MOST_RUNS
    since = max(stored.created_at, runs[0].due_at if is_cut else stored.created_at)
    return lay_out(
        [Moment(run.due_at, run.state) for run in runs],
        zone=find_zone(zone if schedule else DEFAULT_ZONE),
        now=now,
        since=since,
        due_after=lambda at: None if schedule is None else schedule.timing.next(at),
    )
