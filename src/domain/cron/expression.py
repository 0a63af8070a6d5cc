"""A compiled cron expression, and its runs."""

from calendar import month_name
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, Self
from zoneinfo import ZoneInfo

import attrs

from .calendar import NEVER, DayRule, NearestWorkingDay, WallPattern, fires, fires_every_year
from .text import KINDS, CronExpressionError, Field, names_matter, read_field, resolve, split_fields
from .timeline import (
    AS_CRON,
    DAY,
    FIRST_MINUTE,
    LAST_MINUTE,
    ClockChanges,
    Stretch,
    Timeline,
    minute_of,
    moment_of,
    timeline_of,
)

HORIZON: Final = 50 * 366 * DAY  # in minutes; runs of one expression are at most 40 years apart

# A wall clock is less than a day ahead of UTC or behind it, so it needs less than two to pass
# over anything that it has shown before.
_TWO_DAYS: Final = 2 * DAY


@attrs.frozen
class CronExpression:
    """A cron text, compiled once. Equal texts are equal expressions; with `H`, of equal names.

    *plain* has the fields as they are read: with numbers for each `H`.

    Moments are aware datetimes in any zone, a naive one is a ValueError; results are in UTC. Text
    is read in the wall time of the *zone* that is given. The set of runs is the same for all
    questions: `matches` is membership in what `next` and `previous` walk through.
    """

    text: str
    plain: str = attrs.field(repr=False)
    wildcard: bool = attrs.field(eq=False, repr=False)
    fires: bool = attrs.field(eq=False, repr=False)
    _pattern: WallPattern = attrs.field(eq=False, repr=False)

    @classmethod
    def parse(cls, text: str, name: str | None = None) -> Self:
        """Compile a text of at most 256 ASCII characters; *name* is that of the schedule, for `H`.

        Raises:
            CronExpressionError: with every fault of every field.
        """
        written = split_fields(text)
        plain, unhashed = resolve(written, name) if names_matter(text) else (written, ())
        minute, hour, month_day, month, week_day = fields = _fields(plain)
        faults = [fault for field in fields for fault in field.faults]
        if unhashed or faults:
            raise CronExpressionError(*unhashed, *faults)
        rule = _day_rule(month_day, week_day)
        return cls(
            text=text.strip(" \t"),
            plain=" ".join(plain),
            wildcard=minute.starred or hour.starred,
            fires=fires(rule, month.mask),
            pattern=WallPattern(minute.mask, hour.mask, month.mask, rule),
        )

    def __str__(self) -> str:
        return self.text

    @property
    def why_never(self) -> str:
        """Why it can never fire, such as "30 February does not exist"; empty if it can."""
        if self.fires:
            return ""
        # Days of the month alone can be why: each week day comes round in every month, or, as a
        # fifth, in some Februaries.
        month_day = _fields(self.plain.split())[2]
        days = [str(day + 1) for day in range(31) if month_day.mask >> day & 1]
        days += [f"{word.day}W" for word in month_day.words if isinstance(word, NearestWorkingDay)]
        months = [month_name[month + 1] for month in range(12) if self._pattern.months >> month & 1]
        return f"{_any_of(days)} {_any_of(months)} does not exist"

    @property
    def warnings(self) -> tuple[str, ...]:
        fields, rule = _fields(self.plain.split()), self._pattern.days
        found = [note for field in fields for note in field.notes]
        starred = next((field for field in (fields[2], fields[4]) if field.starred), None)
        if rule.either and starred is not None:
            found.append(
                f'"{starred.text}" counts as a restriction, so a day that satisfies either day '
                "field is enough; classic cron daemons want both when a field begins with a star"
            )
        if self.fires and not fires_every_year(rule, self._pattern.months):
            found.append("there are years without a run")
        return tuple(found)

    def matches(self, moment: datetime, zone: ZoneInfo, changes: ClockChanges = AS_CRON) -> bool:
        """Whether a run is due in the minute of *moment*.

        True for the first minute after a spring change that leapt over a fixed time, false for
        the second pass of that time in autumn; *changes* may say otherwise.
        """
        minute = minute_of(moment)
        if not FIRST_MINUTE <= minute <= LAST_MINUTE:
            return False
        stretch = _timeline(zone, changes).at(minute)
        if minute >= stretch.settled or self.wildcard:
            return self._pattern.holds(minute + stretch.offset)
        return self._holds_unsettled(minute, stretch)

    def next(
        self, after: datetime, zone: ZoneInfo, changes: ClockChanges = AS_CRON
    ) -> datetime | None:
        """The first run after *after*; None if there is none in the 50 years that follow."""
        found = self._next(minute_of(after) + 1, _timeline(zone, changes))
        return None if found is None else moment_of(found)

    def previous(
        self, before: datetime, zone: ZoneInfo, changes: ClockChanges = AS_CRON
    ) -> datetime | None:
        """The last run before *before* (12:00 is before 12:00:30); None if none in 50 years."""
        minute = minute_of(before)
        inside = before.second or before.microsecond
        found = self._previous(minute if inside else minute - 1, _timeline(zone, changes))
        return None if found is None else moment_of(found)

    def upcoming(
        self, after: datetime, zone: ZoneInfo, changes: ClockChanges = AS_CRON
    ) -> Iterator[datetime]:
        """The runs after *after*, one by one, for as long as there are any."""
        return map(moment_of, self.minutes(minute_of(after) + 1, LAST_MINUTE + 1, zone, changes))

    def minutes(
        self, first: int, last: int, zone: ZoneInfo, changes: ClockChanges = AS_CRON
    ) -> Iterator[int]:
        """The runs from minute *first* to before *last*, as minutes since 1970 in UTC."""
        timeline = _timeline(zone, changes)
        found = self._next(first, timeline)
        while found is not None and found < last:
            yield found
            found = self._next(found + 1, timeline)

    def wall_times(self, wall: int) -> Iterator[int]:
        while self.fires and (wall := self._pattern.first(wall)) != NEVER:
            yield wall
            wall += 1

    def _next(self, minute: int, timeline: Timeline) -> int | None:
        """The first run at or after *minute*.

        The calendar is asked for the first wall time that matches, whatever the zone. If that is
        beyond the stretch, so is everything until shortly before it, and the search resumes there.
        """
        if not self.fires:
            return None
        minute = max(minute, FIRST_MINUTE)
        limit = min(minute + HORIZON, LAST_MINUTE + 1)
        while minute < limit:
            stretch = timeline.at(minute)
            wall = minute + stretch.offset
            if minute < stretch.settled and not self.wildcard:
                if self._catches_up(stretch):
                    return minute
                wall = max(wall, stretch.resume)
            found = self._pattern.first(wall) - stretch.offset
            if found < stretch.end:
                return found if found < limit else None
            calm = stretch.end - minute >= _TWO_DAYS
            minute = max(stretch.end, found - _TWO_DAYS) if calm else stretch.end
        return None

    def _previous(self, minute: int, timeline: Timeline) -> int | None:
        if not self.fires:
            return None
        minute = min(minute, LAST_MINUTE)
        limit = max(minute - HORIZON, FIRST_MINUTE - 1)
        while minute > limit:
            stretch = timeline.at(minute)
            found = self._pattern.last(minute + stretch.offset) - stretch.offset
            if found >= (stretch.start if self.wildcard else stretch.resume - stretch.offset):
                return found if found > limit else None
            if self._catches_up(stretch):
                return stretch.start if stretch.start > limit else None
            calm = minute - stretch.start >= _TWO_DAYS
            minute = min(stretch.start - 1, found + _TWO_DAYS) if calm else stretch.start - 1
        return None

    def _holds_unsettled(self, minute: int, stretch: Stretch) -> bool:
        if self._catches_up(stretch):
            return True
        wall = minute + stretch.offset
        return wall >= stretch.resume and self._pattern.holds(wall)

    def _catches_up(self, stretch: Stretch) -> bool:
        """Whether the clock has leapt over a fixed time at the start of the stretch."""
        wall = stretch.start + stretch.offset
        return (
            not self.wildcard
            and stretch.missed < wall
            and self._pattern.first(stretch.missed) < wall
        )


def _timeline(zone: ZoneInfo, changes: ClockChanges) -> Timeline:
    """Find a timeline; without a hash of *changes*, which would take longer than the search."""
    return timeline_of(zone) if changes is AS_CRON else timeline_of(zone, changes)


def _any_of(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _fields(texts: Sequence[str]) -> tuple[Field, ...]:
    return tuple(map(read_field, KINDS, texts))


@lru_cache(maxsize=4096)
def _day_rule(month_day: Field, week_day: Field) -> DayRule:
    """Expressions with the same day fields share a rule, and so its cached masks."""
    return DayRule(
        month_days=month_day.mask,
        week_days=week_day.mask,
        either=not (month_day.plain or week_day.plain),
        month_words=month_day.words,
        week_words=week_day.words,
    )
