"""Days: what is due in each minute of one, and what ran when."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

import attrs

from cronhare.domain.load.curves import Curve, DayLoad, Maker
from cronhare.domain.overlaps import STEPS, Bar, Lane, Overlaps, Tone


@attrs.frozen(kw_only=True)
class CurveView:
    """The runs that begin in each minute of a day, and in each minute of the hour; see `Curve`."""

    minutes: Sequence[float]
    of_hour: Sequence[float]
    total: float
    mean: float
    peak: float
    peak_at: datetime
    on_the_hour: float

    @classmethod
    def of(cls, curve: Curve) -> Self:
        """Show a curve."""
        names = (field.name for field in attrs.fields(cls))
        return cls(**{name: getattr(curve, name) for name in names})


@attrs.frozen(kw_only=True)
class LoadView:
    """The load of a day, and what would spread it; see `DayLoad`."""

    begin: datetime
    as_it_is: CurveView
    jittered: Mapping[int, CurveView]
    hashed: CurveView
    makers: Sequence[Maker]
    schedules: int
    broken: int

    @classmethod
    def of(cls, load: DayLoad) -> Self:
        """Show a day's load."""
        return cls(
            begin=load.as_it_is.begin,
            as_it_is=CurveView.of(load.as_it_is),
            jittered={least: CurveView.of(curve) for least, curve in load.jittered.items()},
            hashed=CurveView.of(load.hashed),
            makers=load.makers,
            schedules=load.schedules,
            broken=load.broken,
        )


@attrs.frozen(kw_only=True)
class BarView:
    """Attempts that are drawn as one; see `Bar`."""

    since: datetime
    until: datetime
    tone: Tone
    attempts: int
    execution_id: int

    @classmethod
    def of(cls, bar: Bar) -> Self:
        """Show a bar."""
        return cls(**attrs.asdict(bar, recurse=False))


@attrs.frozen(kw_only=True)
class LaneView:
    """What ran of one schedule, or on one node; see `Lane`."""

    name: str
    bars: Sequence[BarView]
    attempts: int
    failed: int
    busy_seconds: float
    at_once: int

    @classmethod
    def of(cls, lane: Lane) -> Self:
        """Show a lane."""
        return cls(
            name=lane.name,
            bars=[BarView.of(bar) for bar in lane.bars],
            attempts=lane.attempts,
            failed=lane.failed,
            busy_seconds=lane.busy.total_seconds(),
            at_once=lane.at_once,
        )


@attrs.frozen(kw_only=True)
class TimelineView:
    """What ran in a window, in lanes *by* schedule or node; see `Overlaps`.

    *running* has the most attempts at once in each of its steps of *step_seconds*. What was claimed
    before *complete_since* is left out; None if nothing is.
    """

    since: datetime
    until: datetime
    now: datetime
    by: str
    lanes: Sequence[LaneView]
    others: int
    attempts: int
    failed: int
    running: Sequence[int]
    step_seconds: float
    peak: int
    peak_at: datetime | None
    complete_since: datetime | None

    @classmethod
    def of(
        cls, found: Overlaps, *, now: datetime, by: str, complete_since: datetime | None
    ) -> Self:
        """Show what ran."""
        step: timedelta = (found.until - found.since) / STEPS
        return cls(
            since=found.since,
            until=found.until,
            now=now,
            by=by,
            lanes=[LaneView.of(lane) for lane in found.lanes],
            others=found.others,
            attempts=found.attempts,
            failed=found.failed,
            running=found.steps,
            step_seconds=step.total_seconds(),
            peak=found.peak,
            peak_at=found.peak_at,
            complete_since=complete_since,
        )
