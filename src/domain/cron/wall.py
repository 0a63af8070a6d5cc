"""A single wall time of a zone, to the instant that it names."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from .months import EPOCH_DAY
from .timeline import DAY, FIRST_MINUTE, LAST_MINUTE, Stretch, moment_of, timeline_of

_FORMAT = "%Y-%m-%d %H:%M"


class MissingWallTime(ValueError):
    """A wall time that a change of the clock leaps over.

    *before* and *after* are the nearest two that exist; all three are naive.
    """

    def __init__(self, wall: datetime, before: datetime, after: datetime, zone: str) -> None:
        super().__init__(wall, before, after, zone)
        self.wall = wall
        self.before = before
        self.after = after
        self.zone = zone

    def __str__(self) -> str:
        return (
            f"{self.wall:{_FORMAT}} does not exist in {self.zone}: the clock goes from"
            f" {self.before:{_FORMAT}} to {self.after:{_FORMAT}}"
        )


def resolve_wall_time(naive: datetime, zone: ZoneInfo, fold: int = 0) -> datetime:
    """The instant, in UTC, at which the wall clock of the zone shows *naive*. Seconds are cut.

    Of a time that comes twice the first pass is meant, with *fold* = 1 the second.

    >>> from cronhare.domain.cron import find_zone
    >>> str(resolve_wall_time(datetime(2026, 7, 1, 8, 30), find_zone("Europe/Berlin")))
    '2026-07-01 06:30:00+00:00'

    Raises:
        MissingWallTime: the clock never shows that time.
        ValueError: *naive* is aware, or within three days of what a datetime can hold.
    """
    if naive.tzinfo is not None:
        raise ValueError(f"{naive!r} is an instant already; a naive datetime is needed")
    since = naive.toordinal() - EPOCH_DAY
    wall = since * DAY + naive.hour * 60 + naive.minute
    if not FIRST_MINUTE + DAY <= wall <= LAST_MINUTE - DAY:
        raise ValueError(f"{naive} is too close to the edge of the calendar")
    stretches = tuple(_around(wall, zone))
    passes = [wall - s.offset for s in stretches if s.start <= wall - s.offset < s.end]
    if passes:
        return moment_of(passes[-1 if fold else 0])
    before = max(s.end + s.offset for s in stretches if s.end + s.offset <= wall) - 1
    after = min(s.start + s.offset for s in stretches if s.start + s.offset > wall)
    raise MissingWallTime(_naive(wall), _naive(before), _naive(after), str(zone))


def _around(wall: int, zone: ZoneInfo) -> Iterator[Stretch]:
    """The stretches in which the clock may show *wall*: it is less than a day off UTC."""
    timeline = timeline_of(zone)
    minute = wall - DAY
    while minute <= wall + DAY:
        stretch = timeline.at(minute)
        yield stretch
        minute = stretch.end


def _naive(wall: int) -> datetime:
    return moment_of(wall).replace(tzinfo=None)
