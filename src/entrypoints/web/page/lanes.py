"""The lanes of a timeline, as places on a line of so many units."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs
from markupsafe import Markup

from cronhare.application.administration.views.overview import BarView, LaneView, TimelineView
from cronhare.application.reports.overlaps import Tone

#: The width of a lane, in its own units, and the least that a bar has of it.
WIDTH: Final = 1_000
_LEAST: Final = 2.0

#: Bars of a lane that each lead to an execution; of more, those that failed or run.
_MOST_LINKS: Final = 80

#: What fails is drawn over what succeeds, and higher: one sees it without its colour.
_ORDER: Final = (Tone.STOPPED, Tone.SUCCEEDED, Tone.RUNNING, Tone.FAILED)
_HEIGHTS: Final = {Tone.FAILED: (0, 20), Tone.RUNNING: (3, 14), Tone.SUCCEEDED: (5, 10)}


@attrs.frozen(kw_only=True)
class BarDrawing:
    """Where a bar is, and what it is about."""

    x: float
    width: float
    y: int
    height: int
    tone: str
    title: str
    execution_id: int


@attrs.frozen(kw_only=True)
class LaneDrawing:
    """A lane with its bars; *rest* draws those as one path that are too many to lead anywhere."""

    lane: LaneView
    bars: Sequence[BarDrawing]
    rest: Markup


def drawn(view: TimelineView) -> list[LaneDrawing]:
    """Place the bars of a timeline."""
    whole = view.until - view.since
    return [_lane(lane, view.since, whole) for lane in view.lanes]


def _lane(lane: LaneView, since: datetime, whole: timedelta) -> LaneDrawing:
    many = len(lane.bars) > _MOST_LINKS
    drawings = [
        _bar(bar, since, whole) for bar in sorted(lane.bars, key=lambda bar: _ORDER.index(bar.tone))
    ]
    is_one_of_many = [many and each.tone == Tone.SUCCEEDED.value for each in drawings]
    rest = [each for each, joined in zip(drawings, is_one_of_many, strict=True) if joined]
    return LaneDrawing(
        lane=lane,
        bars=[each for each, joined in zip(drawings, is_one_of_many, strict=True) if not joined],
        rest=Markup("".join(map(_path, rest))),  # noqa: S704 - numbers alone
    )


def _path(bar: BarDrawing) -> str:
    return f"M{bar.x:g} {bar.y}h{bar.width:g}v{bar.height}h-{bar.width:g}z"


def _bar(bar: BarView, since: datetime, whole: timedelta) -> BarDrawing:
    y, height = _HEIGHTS.get(bar.tone, (7, 6))
    width = max((bar.until - bar.since) / whole * WIDTH, _LEAST)
    return BarDrawing(
        x=round(min((bar.since - since) / whole * WIDTH, WIDTH - _LEAST), 1),
        width=round(width, 1),
        y=y,
        height=height,
        tone=bar.tone.value,
        title=_title(bar),
        execution_id=bar.execution_id,
    )


def _title(bar: BarView) -> str:
    times = f"{bar.since:%H:%M:%S}-{bar.until:%H:%M:%S}"
    if bar.attempts > 1:
        return f"{times}: {bar.attempts} attempts, {bar.tone}"
    return f"{times}: execution {bar.execution_id}, {bar.tone}"


def marks(since: datetime, lasting: timedelta) -> Sequence[str]:
    """Name nine moments, evenly over a window."""
    moments = [since + lasting * number / 8 for number in range(9)]
    return [f"{moment:%H:%M}" for moment in moments]
