"""Why a due instant does not run: its schedule's conditions, as things are; a pure decision."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from cronhare.domain.texts.words import counted

from .calendars import BrokenCalendar, FoundCalendar, missing
from .conditions import Conditions, expired
from .pause import Pause
from .schedule import Schedule

#: The most due instants of a schedule with conditions that one look judges: an interval of seconds
#: has millions after a while. Older ones are missed.
MOST_JUDGED: Final = 10_000

_UTC: Final = ZoneInfo("UTC")


class NewestSkip(msgspec.Struct, frozen=True, kw_only=True):
    """The newest row of instants that did not run: the next one of that reason prolongs it."""

    key: str
    last: datetime
    reason: str


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger knows beside a schedule's row, read where a schedule has conditions or a pause.

    *claimed* counts the runs that were due so far; *problem* says what of it cannot be read.
    """

    pause: Pause | None = None
    calendars: Mapping[str, FoundCalendar] = {}
    claimed: int = 0
    newest_skip: NewestSkip | None = None
    problem: str | None = None

    def problem_with(self, schedule: Schedule) -> str | None:
        """Say why the schedule cannot be planned."""
        if self.problem is not None or schedule.conditions is None:
            return self.problem
        broken = [
            str(found)
            for name in schedule.conditions.calendars
            if isinstance(found := self.calendars.get(name) or missing(name), BrokenCalendar)
        ]
        return "; ".join(broken) or None

    def runs_left(self, schedule: Schedule) -> int | None:
        """Say how many runs it may still have; None for any number."""
        conditions = schedule.conditions
        if conditions is None or conditions.max_runs is None:
            return None
        return max(conditions.max_runs - self.claimed, 0)

    def why_not(self, schedule: Schedule, instant: datetime, now: datetime) -> str | None:
        """Say why an instant that is looked at *now* does not run; None if it may."""
        if self.pause is not None and self.pause.covers(instant, now=now):
            return str(self.pause)
        if schedule.conditions is None:
            return None
        return self.why_not_that_day(schedule, instant) or _why_too_late(
            schedule.conditions, instant, now
        )

    def why_skipped(self, schedule: Schedule, instant: datetime, now: datetime) -> str | None:
        """Say why an instant does not run, if only because the schedule is not planned any more."""
        if self.runs_left(schedule) == 0:
            return f"max_runs: it had its {counted(self.claimed, 'run')}"
        if (problem := self.problem_with(schedule)) is not None:
            return f"it cannot be planned: {problem}"
        return self.why_not(schedule, instant, now)

    def why_not_that_day(self, schedule: Schedule, instant: datetime) -> str | None:
        """Say which calendar or blackout window keeps an instant from running."""
        if (conditions := schedule.conditions) is None:
            return None
        for name in conditions.skip_on:
            calendar = self.calendars[name]
            if not isinstance(calendar, BrokenCalendar) and (at := calendar.window_at(instant)):
                return f"calendar {name}: {at}"
        if conditions.only_on and not self._is_on_one(conditions.only_on, instant):
            return f"in no window of calendar {' or '.join(conditions.only_on)}"
        zone = getattr(schedule.timing, "zone", _UTC)
        if (window := conditions.blacked_out_by(instant, zone)) is not None:
            return f"blackout: {window.text}"
        return None

    def _is_on_one(self, names: Sequence[str], instant: datetime) -> bool:
        found = (self.calendars[name] for name in names)
        return any(not isinstance(c, BrokenCalendar) and c.window_at(instant) for c in found)


def counts_runs(schedule: Schedule) -> bool:
    """Whether the runs that were due are counted: it may have but so many."""
    return schedule.conditions is not None and schedule.conditions.max_runs is not None


def sort_out(
    schedule: Schedule, due: Sequence[datetime], circumstances: Circumstances, now: datetime
) -> tuple[Sequence[datetime], Sequence[tuple[str, Sequence[datetime]]]]:
    """Part the due instants that may run from those that do not, in stretches with a reason."""
    older, recent = due[:-MOST_JUDGED], due[-MOST_JUDGED:]
    judged = [(instant, circumstances.why_not(schedule, instant, now)) for instant in recent]
    allowed = [instant for instant, reason in judged if reason is None]
    refused = list(_stretches(judged))
    if older:
        refused = [(_why_not_older(older, circumstances, now), older), *refused]
    return allowed, refused


def _why_not_older(older: Sequence[datetime], circumstances: Circumstances, now: datetime) -> str:
    pause = circumstances.pause
    if pause is not None and all(pause.covers(end, now=now) for end in (older[0], older[-1])):
        return str(pause)
    return f"missed: more than the {MOST_JUDGED:,} instants that are looked at one by one"


def _stretches(
    judged: Sequence[tuple[datetime, str | None]],
) -> Iterator[tuple[str, Sequence[datetime]]]:
    for reason, group in groupby(judged, key=lambda one: one[1]):
        if reason is not None:
            yield reason, [instant for instant, _ in group]


def _why_too_late(conditions: Conditions, instant: datetime, now: datetime) -> str | None:
    if conditions.expires is None or now - instant <= conditions.expires:
        return None
    return expired(conditions.expires)
