"""When schedules are due, counted: many have the same text in the same zone."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..cron.timeline import MINUTE, minute_of
from .schedule import Every, Once, Recurring, Timing

#: Minutes of the longest jitter that is looked at.
LONGEST_JITTER: Final = 24 * 60

SECONDS: Final = 60
_MOMENT: Final = timedelta(microseconds=1)


@attrs.frozen(kw_only=True)
class SameTiming:
    """So many schedules that are due at the same instants, each up to *jitter* later.

    Where their text has an `H`, *hashed* is what was written, and the timing has numbers instead.
    """

    number: int
    timing: Timing
    hashed: str | None = None
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def jitter_minutes(self) -> int:
        """Over how many minutes a run is spread, its own included: 1 without jitter."""
        return min(max(-(-self.jitter // MINUTE), 1), LONGEST_JITTER)

    @property
    def literal_minute(self) -> int | None:
        """The minute of the hour that its text names, which `H` could stand for; None without."""
        match self.timing:
            case Recurring() if self.hashed is None:
                minute = self.timing.expression.plain.partition(" ")[0]
                return int(minute) if minute.isdigit() else None
        return None

    @property
    def text(self) -> str:
        """What people wrote, with the zone where there is one."""
        match self.timing:
            case Recurring():
                return f"{self.hashed or self.timing.expression.text} {self.timing.zone}"
            case _:
                return str(self.timing)

    def due(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Give the minutes in which each is due, from *first* to before *last*, and how often."""
        if self.starts_at is not None:
            first = max(first, minute_of(self.starts_at - _MOMENT) + 1)
        if self.ends_at is not None:
            last = min(last, minute_of(self.ends_at) + 1)
        if first >= last:
            return iter(())
        match self.timing:
            case Every():
                return _ticks(self.timing.period // timedelta(seconds=1), first, last)
            case Recurring():
                return _runs(self.timing, first, last)
            case Once():
                at = minute_of(self.timing.at)
                return iter([(at, 1)] if first <= at < last else ())
            case _:
                return iter(())


@attrs.frozen(kw_only=True)
class Timings:
    """What is known of all enabled schedules; *broken* rows are left out."""

    groups: Sequence[SameTiming]
    broken: int = 0

    @property
    def schedules(self) -> int:
        """How many there are."""
        return sum(group.number for group in self.groups)


def _runs(timing: Recurring, first: int, last: int) -> Iterator[tuple[int, int]]:
    for minute in timing.expression.minutes(first, last, timing.zone, timing.changes):
        yield minute, 1


def _ticks(seconds: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Count the ticks of each minute that has any."""
    if seconds >= SECONDS:
        for tick in range(-(-first * SECONDS // seconds) * seconds, last * SECONDS, seconds):
            yield tick // SECONDS, 1
        return
    for minute in range(first, last):
        begin = minute * SECONDS
        yield minute, -(-(begin + SECONDS) // seconds) + begin // -seconds
