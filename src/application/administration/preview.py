"""The runs to come, with what the changes of the clock do to them."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronhare.domain.cron import (
    ClockEffect,
    CronExpression,
    EffectKind,
    Gap,
    clock_changes,
    clock_effects,
    find_zone,
)
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Recurring, Schedule, Timing

from .views.due import ClockEffectView, DueView

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
