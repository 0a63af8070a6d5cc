"""Starts per minute of a day, and how they could be spread."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

import attrs

from cronhare.domain.cron.timeline import DAY, MINUTE, minute_of, moment_of
from cronhare.domain.schedules.schedule import Every, Once, Recurring
from cronhare.ports.schedules import SameTiming, Timings

HOUR: Final = 60

#: What is shown of the texts that make the busiest minute.
MOST_MAKERS: Final = 8

#: Minutes of jitter whose effect is shown.
JITTERS: Final = (5, 15)

#: Minutes of the longest jitter that is looked at.
_LONGEST_JITTER: Final = 24 * 60

_SECONDS: Final = 60
_MOMENT: Final = timedelta(microseconds=1)


@attrs.frozen(kw_only=True)
class Curve:
    """The runs that are expected to begin in each minute of a day from *begin* on."""

    begin: datetime
    minutes: Sequence[float]

    @property
    def total(self) -> float:
        return sum(self.minutes)

    @property
    def mean(self) -> float:
        return self.total / len(self.minutes)

    @property
    def peak(self) -> float:
        return max(self.minutes)

    @property
    def peak_at(self) -> datetime:
        return moment_of(minute_of(self.begin) + self.minutes.index(self.peak))

    @property
    def of_hour(self) -> Sequence[float]:
        """How many begin in each minute of the hour, :00 to :59 in UTC, over the day."""
        first = minute_of(self.begin)
        sums = [0.0] * HOUR
        for place, number in enumerate(self.minutes):
            sums[(first + place) % HOUR] += number
        return sums

    @property
    def on_the_hour(self) -> float:
        """The part that begins at :00, 0 to 1; evenly spread it is a sixtieth."""
        return self.of_hour[0] / self.total if self.total else 0.0


@attrs.frozen(kw_only=True)
class Maker:
    """A text that makes the busiest minute: so many *schedules* are due then by it."""

    text: str
    schedules: int


@attrs.frozen(kw_only=True)
class DayLoad:
    """The load of a day as it is, with so many minutes of jitter, and with `H` for the minute.

    Jitter is as if every run had at least so much. *hashed* has `H` in place of each minute that is
    a number: expected over all names that schedules could have.
    """

    as_it_is: Curve
    jittered: Mapping[int, Curve]
    hashed: Curve
    makers: Sequence[Maker]
    schedules: int
    broken: int


def day_load(timings: Timings, begin: datetime) -> DayLoad:
    """Compute the load of the 24 hours from *begin* on, which is a whole minute.

    What pauses, calendars, conditions and limits would leave out is counted as if it ran.
    """
    longest = max((_jitter_of(group) for group in timings.groups), default=1)
    lead = HOUR + max(longest, HOUR, *JITTERS)
    first = minute_of(begin)
    kinds = _collect(timings.groups, first - lead, first + DAY)

    def curve(spread: Iterable[Sequence[float]]) -> Curve:
        sums = [sum(each) for each in zip(*spread, strict=True)] or [0.0] * (lead + DAY)
        return Curve(begin=begin, minutes=sums[lead:])

    as_it_is = curve(_spread(starts, kind.jitter) for kind, starts in kinds.items())
    return DayLoad(
        as_it_is=as_it_is,
        jittered={
            least: curve(_spread(starts, max(kind.jitter, least)) for kind, starts in kinds.items())
            for least in JITTERS
        },
        hashed=curve(_hashed(kind, starts) for kind, starts in kinds.items()),
        makers=_makers(timings.groups, minute_of(as_it_is.peak_at)),
        schedules=sum(group.number for group in timings.groups),
        broken=timings.broken,
    )


@attrs.frozen
class _Kind:
    """What decides how runs are spread: minutes of jitter, and the minute that their text names."""

    jitter: int
    literal: int | None


def _collect(
    groups: Iterable[SameTiming], first: int, last: int
) -> Mapping[_Kind, Sequence[float]]:
    kinds = dict[_Kind, list[float]]()
    for group in groups:
        kind = _Kind(_jitter_of(group), _literal_of(group))
        starts = kinds.get(kind)
        if starts is None:
            starts = kinds[kind] = [0.0] * (last - first)
        for minute, times in _due(group, first, last):
            starts[minute - first] += group.number * times
    return kinds


def _spread(starts: Sequence[float], over: int) -> Sequence[float]:
    """Let each begin in one of so many minutes, its own the first.

    >>> _spread([6, 0, 0, 0], 3)
    [2.0, 2.0, 2.0, 0.0]
    """
    if over == 1:
        return starts
    sums = [0.0, *accumulate(starts)]
    return [(sums[at + 1] - sums[max(at + 1 - over, 0)]) / over for at in range(len(starts))]


def _hashed(kind: _Kind, starts: Sequence[float]) -> Sequence[float]:
    if kind.literal is None:
        return _spread(starts, kind.jitter)
    from_the_hour = [*starts[kind.literal :], *[0.0] * kind.literal]
    return _spread(_spread(from_the_hour, HOUR), kind.jitter)


def _makers(groups: Iterable[SameTiming], minute: int) -> Sequence[Maker]:
    found = dict[str, int]()
    for group in groups:
        if any(_due(group, minute, minute + 1)):
            found[group.text] = found.get(group.text, 0) + group.number
    most = sorted(found.items(), key=lambda each: (-each[1], each[0]))[:MOST_MAKERS]
    return [Maker(text=text, schedules=number) for text, number in most]


def _jitter_of(group: SameTiming) -> int:
    return min(max(-(-group.jitter // MINUTE), 1), _LONGEST_JITTER)


def _literal_of(group: SameTiming) -> int | None:
    """The minute of the hour that its text names, which `H` could stand for; None without."""
    if not isinstance(group.timing, Recurring) or group.hashed is not None:
        return None
    minute = group.timing.expression.plain.partition(" ")[0]
    return int(minute) if minute.isdigit() else None


def _due(group: SameTiming, first: int, last: int) -> Iterator[tuple[int, int]]:
    if group.starts_at is not None:
        first = max(first, minute_of(group.starts_at - _MOMENT) + 1)
    if group.ends_at is not None:
        last = min(last, minute_of(group.ends_at) + 1)
    if first >= last:
        return
    match group.timing:
        case Every(period=period):
            yield from _ticks(period // timedelta(seconds=1), first, last)
        case Recurring(expression=expression, zone=zone, changes=changes):
            yield from ((minute, 1) for minute in expression.minutes(first, last, zone, changes))
        case Once(at=at) if first <= minute_of(at) < last:
            yield minute_of(at), 1


def _ticks(seconds: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    if seconds >= _SECONDS:
        for tick in range(-(-first * _SECONDS // seconds) * seconds, last * _SECONDS, seconds):
            yield tick // _SECONDS, 1
        return
    for minute in range(first, last):
        begin = minute * _SECONDS
        yield minute, -(-(begin + _SECONDS) // seconds) + begin // -seconds
