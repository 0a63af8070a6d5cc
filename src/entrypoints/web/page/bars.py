"""Geometry of the pictures, which templates draw: numbers alone, no words and no colours."""

from collections.abc import Sequence
from math import log1p
from typing import Final

import attrs

from cronhare.application.administration.views.overview import ComingMinute
from cronhare.domain.execution import State
from cronhare.ports.records import Run

from .outcomes import tone

#: A picture of minutes: so wide is one, and so high the tallest bar.
_MINUTE, HEIGHT = 10, 40

#: A sparkline: so wide is one run, with its gap.
SPARK_WIDTH: Final = 6
SPARK_HEIGHT: Final = 20


@attrs.frozen(kw_only=True)
class Bar:
    """A bar of a picture; *tone* is its class, *mark* says that it has a dot above."""

    x: float
    y: float
    width: float
    height: float
    tone: str = ""
    mark: bool = False


def minutes_chart(minutes: Sequence[ComingMinute]) -> Sequence[Bar]:
    """Draw how many schedules are due in each minute."""
    most = max((each.schedules for each in minutes), default=0) or 1
    return [
        Bar(
            x=each.minute * _MINUTE + 1,
            y=round(HEIGHT - height, 1),
            width=_MINUTE - 2,
            height=height,
        )
        for each in minutes
        if each.schedules and (height := round(max(3, HEIGHT * each.schedules / most), 1))
    ]


def sparkline(runs: Sequence[Run], *, most: int) -> Sequence[Bar]:
    """Draw runs from the left, the newest at the right: as high as they took long.

    What failed is of full height with a mark above; what was skipped is a low stump.
    """
    longest = max((run.seconds or 0 for run in runs), default=0)
    first = most - len(runs)
    return [_spark(run, first + place, longest) for place, run in enumerate(runs[-most:])]


def _spark(run: Run, place: int, longest: float) -> Bar:
    is_bad = run.state in {State.FAILED, State.QUARANTINED}
    full = SPARK_HEIGHT - 5
    if is_bad:
        height = float(full)
    elif run.seconds is None or run.state is State.SKIPPED:
        height = 3.0
    else:
        part = log1p(run.seconds * 10) / log1p(longest * 10) if longest else 0
        height = round(4 + (full - 4) * part, 1)
    return Bar(
        x=place * SPARK_WIDTH,
        y=round(SPARK_HEIGHT - height, 1),
        width=SPARK_WIDTH - 2,
        height=height,
        tone=tone(run.state),
        mark=is_bad,
    )


#: A picture of durations: so wide is one run, and so high the longest.
DURATION_WIDTH, DURATION_HEIGHT = 8, 80


def duration_bars(runs: Sequence[Run], *, most: int) -> Sequence[Bar]:
    """Draw how long runs took, the newest at the right; those that never began are left out."""
    longest = max((run.seconds or 0 for run in runs), default=0)
    first = most - len(runs)
    return [
        Bar(
            x=(first + place) * DURATION_WIDTH,
            y=round(DURATION_HEIGHT - height, 1),
            width=DURATION_WIDTH - 2,
            height=height,
            tone=tone(run.state),
            mark=run.state in {State.FAILED, State.QUARANTINED},
        )
        for place, run in enumerate(runs)
        if run.seconds is not None
        and (height := round(max(2.0, (DURATION_HEIGHT - 8) * run.seconds / (longest or 1)), 1))
    ]
