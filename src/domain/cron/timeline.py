"""The clock changes of a zone, and what each does to jobs: the rule of Debian's cron(8).

Everything is counted in minutes: a *minute* is one of real time since 1970 in UTC, a *wall*
minute is what the clock on the wall shows, counted the same way.

The daemon keeps the highest wall time that it has reached. When the clock leaps forward by less
than three hours, fixed-time jobs in between run once, right after the leap; when it falls back
by less than three hours, fixed-time jobs rest until that mark is reached again. A change of three
hours or more is a correction: the new time simply holds. Of the others a schedule may say something
else: see `ClockChanges`.
"""

import enum
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import attrs

from ..texts.printable import LONGEST_ECHO, shown


class Gap(enum.StrEnum):
    """What becomes of a fixed time that the clock leaps over."""

    AFTER = "after"  # it runs once, in the first minute after the leap
    SKIP = "skip"


class Fold(enum.StrEnum):
    """In which pass of a repeated hour a fixed time runs."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


@attrs.frozen
class ClockChanges:
    """What becomes of fixed times at changes of less than three hours; see `timeline`."""

    gap: Gap = Gap.AFTER
    fold: Fold = Fold.FIRST


#: As Debian's cron does. Compared by identity where that must take no time.
AS_CRON: Final = ClockChanges()


@cache
def clock_changes(gap: Gap, fold: Fold) -> ClockChanges:
    changes = ClockChanges(gap, fold)
    return AS_CRON if changes == AS_CRON else changes


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
DAY: Final = 24 * 60
CORRECTION: Final = 3 * 60

# Two days off the edges of what datetime can hold, so that no offset can lead beyond them.
FIRST_MINUTE: Final = (datetime(1, 1, 3, tzinfo=UTC) - EPOCH) // MINUTE
LAST_MINUTE: Final = (datetime(9999, 12, 29, tzinfo=UTC) - EPOCH) // MINUTE

_BLOCK_BITS: Final = 19  # 364 days
_BLOCKS_KEPT: Final = 64

# 68 hours. The shortest stretch in the zone data lasts 95 hours (Freetown, 1939), so two looks
# in a row cannot step over one.
_LOOK: Final = 4096


@attrs.frozen(eq=False)
class Stretch:
    """Minutes from *start* up to *end* in which the UTC offset (in minutes) does not change.

    Fixed-time jobs count from the wall minute *resume*; those between the wall minute *missed*
    and that of the start were leapt over. From the minute *settled* on nothing is special.
    """

    start: int
    end: int
    offset: int
    missed: int
    resume: int
    settled: int = attrs.field(init=False)

    @settled.default
    def _settled(self) -> int:
        leapt = self.missed < self.start + self.offset
        return self.start + 1 if leapt else self.resume - self.offset


_NOWHERE: Final = Stretch(0, 0, 0, 0, 0)


def _for_ever(offset: int) -> Stretch:
    wall = FIRST_MINUTE + offset
    return Stretch(FIRST_MINUTE, LAST_MINUTE + 1, offset, wall, wall)


def minute_of(moment: datetime) -> int:
    since = moment - EPOCH
    return since.days * DAY + since.seconds // 60


def moment_of(minute: int) -> datetime:
    return EPOCH + minute * MINUTE


class Timeline:
    """The stretches of one zone, surveyed as they are asked for; about a year at a time."""

    __slots__ = ("_blocks", "_latest", "_rule", "_zone")

    def __init__(self, zone: ZoneInfo, rule: ClockChanges = AS_CRON) -> None:
        """Zones that never change, such as UTC, are a single stretch."""
        self._rule = rule
        self._zone = zone
        self._blocks: dict[int, tuple[Stretch, ...]] = {}
        fixed = zone.utcoffset(None)
        self._latest = _NOWHERE if fixed is None else _for_ever(fixed // MINUTE)

    def at(self, minute: int) -> Stretch:
        latest = self._latest
        if latest.start <= minute < latest.end:
            return latest
        return self._find(minute)

    def changes(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """The changes from a minute to a later one: when, and the offsets before and after."""
        stretch = self.at(first)
        while stretch.end <= last:
            following = self.at(stretch.end)
            if following.offset != stretch.offset:
                yield following.start, stretch.offset, following.offset
            stretch = following

    def _find(self, minute: int) -> Stretch:
        block = minute >> _BLOCK_BITS
        stretches = self._blocks.get(block)
        if stretches is None:
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.clear()
            stretches = self._blocks[block] = tuple(self._survey(block))
        self._latest = next(stretch for stretch in stretches if minute < stretch.end)
        return self._latest

    def _survey(self, block: int) -> Iterator[Stretch]:
        """Walk from a little before the block to a little behind it: changes there matter here."""
        begin = block << _BLOCK_BITS
        end = begin + (1 << _BLOCK_BITS)
        for stretch in self._walk(begin - _LOOK, end + _LOOK):
            start = max(stretch.start, begin)
            if start < min(stretch.end, end):
                wall = start + stretch.offset
                leapt = stretch.missed if stretch.start >= begin else wall
                resume = max(stretch.resume, wall)
                yield Stretch(start, min(stretch.end, end), stretch.offset, leapt, resume)

    def _walk(self, start: int, end: int) -> Iterator[Stretch]:
        offset = self._offset(start)
        missed = resume = start + offset
        for change in (*self._changes(start, end), end):
            following = self._offset(change)
            rest = self._rest(start, change, change + offset, change + following)
            yield Stretch(start, rest, offset, missed, resume)
            if rest < change:  # what counts is the second pass: nothing here until the change
                yield Stretch(rest, change, offset, rest + offset, change + offset)
            reached = max(resume, change + offset)
            start, offset = change, following
            missed, resume = self._after_change(reached, start + offset)

    def _rest(self, start: int, change: int, reached: int, wall: int) -> int:
        """The minute from which fixed-time jobs rest until the clock falls back from *reached*."""
        if self._rule.fold is Fold.SECOND and 0 < reached - wall < CORRECTION:
            return max(start + 1, change - (reached - wall))
        return change

    def _after_change(self, reached: int, wall: int) -> tuple[int, int]:
        """What is missed, and where fixed-time jobs resume, once the clock shows *wall*."""
        if abs(wall - reached) >= CORRECTION:
            return wall, wall
        return (
            wall if self._rule.gap is Gap.SKIP else min(reached, wall),
            max(reached, wall) if self._rule.fold is Fold.FIRST else wall,
        )

    def _changes(self, start: int, end: int) -> Iterator[int]:
        for low in range(start, end, _LOOK):
            high = min(low + _LOOK, end - 1)
            before = self._offset(low)
            if self._offset(high) != before:
                yield self._bisect(low, high, before)

    def _bisect(self, low: int, high: int, before: int) -> int:
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == before:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, minute: int) -> int:
        """The offset in whole minutes, rounded down: old local times went by the second."""
        inside = min(max(minute, FIRST_MINUTE), LAST_MINUTE)
        offset = moment_of(inside).astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset // MINUTE


@lru_cache(maxsize=1024)
def timeline_of(zone: ZoneInfo, rule: ClockChanges = AS_CRON) -> Timeline:
    return Timeline(zone, rule)


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_OFFSET = re.compile(r"(utc|gmt)?[+-]\d{1,2}(:?\d\d)?", re.IGNORECASE)

# Files beside the zones: what they hold depends on the machine, or counts leap seconds.
_NOT_A_PLACE = re.compile(r"local(time)?|posixrules|factory|(posix|right)/.*", re.IGNORECASE)


class UnknownZone(ValueError):
    """A name that is not in the zone data. *hint* says what may have been meant, or is empty."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(name, hint)
        self.name = name
        self.hint = hint

    def __str__(self) -> str:
        return f'unknown zone "{shown(self.name)}"' + (f" ({self.hint})" if self.hint else "")


@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo:
    """Find a zone by its IANA name, exactly as it is spelt there.

    Raises:
        UnknownZone: there is none of that name, or it is not one that every node would read alike.
    """
    if len(name) > LONGEST_ECHO or not _NAME.fullmatch(name) or _NOT_A_PLACE.fullmatch(name):
        raise UnknownZone(name, _hint(name))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a folder is an OSError
        raise UnknownZone(name, _hint(name)) from error


def _hint(name: str) -> str:
    if _NOT_A_PLACE.fullmatch(name):
        return "it would differ from node to node; name a place, such as Europe/Berlin"
    if _OFFSET.fullmatch(name):
        return "an offset is not a zone; name a place, such as Europe/Berlin, or UTC"
    wanted = name[:LONGEST_ECHO].strip().replace(" ", "_").casefold()
    known = sorted(available_timezones())
    close = [key for key in known if wanted and key.casefold().rpartition("/")[2] == wanted]
    folded = {key.casefold(): key for key in known}
    close = close or [folded[key] for key in get_close_matches(wanted, folded, n=2)]
    return f"did you mean {' or '.join(close)}?" if close else ""


#: No offset leads beyond the calendar from within these.
_EARLIEST, _LATEST = (
    moment_of(minute).replace(tzinfo=None) for minute in (FIRST_MINUTE + DAY, LAST_MINUTE - DAY)
)


def resolve_wall_time(naive: datetime, zone: ZoneInfo, fold: int = 0) -> datetime:
    """The instant, in UTC, at which the wall clock of the zone shows *naive*. Seconds are cut.

    Of a time that comes twice the first pass is meant, with *fold* = 1 the second.

    Raises:
        ValueError: the clock never shows that time, or it is at an edge of the calendar.
    """
    wall = naive.replace(second=0, microsecond=0)
    if not _EARLIEST <= wall <= _LATEST:
        raise ValueError(f"{naive} is too close to the edge of the calendar")
    instant = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    if shown != wall:
        leap = f"{wall:%Y-%m-%d %H:%M} does not exist in {zone}: the clock leaps over it"
        raise ValueError(f"{leap}, and shows {shown:%Y-%m-%d %H:%M} in its place")
    return instant
