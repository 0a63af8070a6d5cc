"""What ran at the same time: lanes of attempts, and how many there were at once."""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.nodes import container_id
from cronhare.domain.retries.outcome import Ending
from cronhare.ports.records import Ran

#: Moments between which the number of attempts at once is looked at.
STEPS: Final = 144

#: Bars of one lane that lie closer than this part of the window are drawn as one.
CLOSEST: Final = 1 / 500


class LaneBy(enum.StrEnum):
    """What the attempts of one lane have in common."""

    SCHEDULE = "schedule"
    NODE = "node"


_LANE_OF: Final[dict[LaneBy, Callable[[Ran], str]]] = {
    LaneBy.SCHEDULE: lambda ran: ran.schedule_name,
    LaneBy.NODE: lambda ran: container_id(ran.node),
}


class Tone(enum.StrEnum):
    """How a bar is told apart."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # cancelled, interrupted by a shutdown, or snoozed


_STOPPED: Final = {one.value for one in (Ending.CANCELLED, Ending.INTERRUPTED, Ending.SNOOZED)}


def tone_of(ending: str | None) -> Tone:
    """Say how an attempt ended, in as many ways as there are colours.

    >>> tone_of("timed-out"), tone_of(None)
    (<Tone.FAILED: 'failed'>, <Tone.RUNNING: 'running'>)
    """
    if ending is None:
        return Tone.RUNNING
    if ending in _STOPPED:
        return Tone.STOPPED
    return Tone.SUCCEEDED if ending == Ending.SUCCEEDED.value else Tone.FAILED


@attrs.frozen(kw_only=True)
class Bar:
    """Attempts of one lane and one tone that are drawn as one: *attempts* of them."""

    since: datetime
    until: datetime
    tone: Tone
    attempts: int
    execution_id: int


@attrs.frozen(kw_only=True)
class Lane:
    """The attempts of one schedule, or of one node: at most so many *at_once*, *busy* in all."""

    name: str
    bars: Sequence[Bar]
    attempts: int
    failed: int
    busy: timedelta
    at_once: int


@attrs.frozen(kw_only=True)
class Overlaps:
    """What ran in a window: the lanes, *by* schedule or node, that were busy for longest.

    *running* has the most attempts at once in each of its `STEPS`, *peak* is the most of all, at
    *peak_at*. *others* counts the lanes that are left out. What was claimed before
    *complete_since* is left out as well; None if nothing is.
    """

    since: datetime
    until: datetime
    now: datetime
    by: str
    lanes: Sequence[Lane]
    others: int
    attempts: int
    failed: int
    running: Sequence[int]
    peak: int
    peak_at: datetime | None
    complete_since: datetime | None


def overlaps(
    ran: Iterable[Ran],
    *,
    since: datetime,
    until: datetime,
    now: datetime,
    by: LaneBy,
    most: int,
    complete_since: datetime | None = None,
) -> Overlaps:
    """Lay out what ran from *since* to *until*, in at most so many lanes; what runs ends *now*."""
    pieces = [piece for each in ran if (piece := _Piece.of(each, since, until, now)) is not None]
    pieces.sort(key=lambda piece: (piece.since, piece.ran.execution_id, piece.ran.attempt))
    lanes = defaultdict[str, list[_Piece]](list)
    for piece in pieces:
        lanes[_LANE_OF[by](piece.ran)].append(piece)
    busy = {name: _sum(own) for name, own in lanes.items()}
    busiest = sorted(lanes, key=lambda name: (-busy[name], name))[:most]
    levels = _levels(pieces)
    peak, peak_at = max(levels, key=lambda level: level[1], default=(None, 0))[::-1]
    return Overlaps(
        since=since,
        until=until,
        now=now,
        by=by.value,
        lanes=[
            _lane(name, lanes[name], busy=busy[name], gap=(until - since) * CLOSEST)
            for name in busiest
        ],
        others=len(lanes) - len(busiest),
        attempts=len(pieces),
        failed=sum(tone_of(piece.ran.ending) is Tone.FAILED for piece in pieces),
        running=_highest(levels, since, (until - since) / STEPS),
        peak=peak,
        peak_at=peak_at,
        complete_since=complete_since,
    )


@attrs.frozen
class _Piece:
    ran: Ran
    since: datetime
    until: datetime

    @classmethod
    def of(cls, ran: Ran, since: datetime, until: datetime, now: datetime) -> "_Piece | None":
        ended = now if ran.finished_at is None else ran.finished_at
        if ran.started_at >= until or ended < since:
            return None
        begin = max(ran.started_at, since)
        return cls(ran, begin, max(min(ended, until), begin))


def _sum(pieces: Iterable[_Piece]) -> timedelta:
    return sum((piece.until - piece.since for piece in pieces), timedelta(0))


def _lane(name: str, pieces: Sequence[_Piece], *, busy: timedelta, gap: timedelta) -> Lane:
    tones = [tone_of(piece.ran.ending) for piece in pieces]
    return Lane(
        name=name,
        bars=_bars(pieces, tones, gap),
        attempts=len(pieces),
        failed=tones.count(Tone.FAILED),
        busy=busy,
        at_once=max((level for _, level in _levels(pieces)), default=0),
    )


def _bars(pieces: Sequence[_Piece], tones: Sequence[Tone], gap: timedelta) -> Sequence[Bar]:
    """Draw those of one tone as one where they are too close to be told apart."""
    bars: list[Bar] = []
    newest = dict[Tone, int]()
    for piece, tone in zip(pieces, tones, strict=True):
        place = newest.get(tone)
        if place is not None and piece.until - bars[place].since <= gap:
            last = bars[place]
            bars[place] = attrs.evolve(
                last, until=max(last.until, piece.until), attempts=last.attempts + 1
            )
            continue
        newest[tone] = len(bars)
        bars.append(
            Bar(
                since=piece.since,
                until=piece.until,
                tone=tone,
                attempts=1,
                execution_id=piece.ran.execution_id,
            )
        )
    return bars


def _levels(pieces: Iterable[_Piece]) -> Sequence[tuple[datetime, int]]:
    """Say how many ran at once, from each moment on at which that changed.

    One that begins as another ends is not beside it; one that took no time is counted.
    """
    changes: list[tuple[datetime, int, int]] = []
    for piece in pieces:
        took_time = piece.until > piece.since
        changes += [(piece.since, 1, 1), (piece.until, 0 if took_time else 2, -1)]
    changes.sort()
    level, levels = 0, list[tuple[datetime, int]]()
    for at, _, change in changes:
        level += change
        levels.append((at, level))
    return levels


def _highest(
    levels: Sequence[tuple[datetime, int]], since: datetime, step: timedelta
) -> Sequence[int]:
    steps = [0] * STEPS
    place, level = 0, 0
    for at, following in levels:
        reached = min(int((at - since) / step), STEPS - 1)
        for passed in range(place, reached + 1):
            steps[passed] = max(steps[passed], level)
        place, level = reached, following
        steps[place] = max(steps[place], level)
    return steps
