"""What a page draws: badges of states, bars, curves, lanes, and the line of an execution."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import log1p
from typing import Final

import attrs
from markupsafe import Markup

from cronhare.application.administration.story import StoryView
from cronhare.application.administration.views.overview import ComingMinute
from cronhare.application.reports.overlaps import Bar as LaneBar
from cronhare.application.reports.overlaps import Lane, Overlaps, Tone
from cronhare.domain.execution import State
from cronhare.ports.records import Run

from .times import in_zone


@attrs.frozen
class Look:
    """A tone is a class of the style sheet; the glyph has a shape of its own."""

    tone: str
    glyph: str


LOOKS: Final = {
    State.CLAIMED: Look("waiting", "○"),
    State.PUBLISHED: Look("waiting", "○"),
    State.HELD: Look("waiting", "‖"),
    State.RUNNING: Look("running", "▶"),
    State.RETRYING: Look("retrying", "↻"),
    State.SUCCEEDED: Look("succeeded", "✓"),
    State.FAILED: Look("failed", "✕"),
    State.QUARANTINED: Look("quarantined", "◆"),
    State.CANCELLED: Look("idle", "⊘"),
    State.SKIPPED: Look("idle", "»"),
    State.HANDED_OVER: Look("idle", "→"),
}
#: How alerts are shown, by their severity; what is over is shown as what has succeeded.
SEVERITIES: Final = {
    "critical": Look("failed", "▲"),
    "high": Look("failed", "△"),
    "warning": Look("retrying", "△"),
    "over": LOOKS[State.SUCCEEDED],
}
_UNKNOWN: Final = Look("idle", "?")


def look(state: State | str) -> Look:
    """Give the look of a state, also of one that a row names and we do not know."""
    try:
        return LOOKS[State(state)]
    except ValueError:
        return _UNKNOWN


def severity(word: str) -> Markup:
    """Show how bad an alert is, or that it is over."""
    return _badge(SEVERITIES.get(word, _UNKNOWN), word)


def badge(state: State | str, word: str | None = None) -> Markup:
    """Show a state, or another *word* in its look."""
    return _badge(look(state), word or str(state))


def tone(state: State | str) -> str:
    """Give the class of a state."""
    return look(state).tone


def glyph(state: State | str) -> str:
    """Give the glyph of a state."""
    return look(state).glyph


def _badge(one: Look, word: str) -> Markup:
    return Markup(
        '<span class="badge {}"><span class="glyph" aria-hidden="true">{}</span>{}</span>'
    ).format(one.tone, one.glyph, word)


#: The height of a chart, in its own units.
CURVE_HEIGHT: Final = 100


def steps(values: Sequence[float], top: float) -> Markup:
    """Draw a filled line that steps from value to value, each one unit wide; *top* is full height.

    >>> steps([1, 1, 2], 2)
    Markup('M0 100v-50h2v-50h1V100z')
    """
    parts, height, width = [f"M0 {CURVE_HEIGHT}"], 0, 0
    for value in values:
        new = min(round(value / top * CURVE_HEIGHT), CURVE_HEIGHT) if top else 0
        if value and not new:
            new = 1  # what is there is seen
        if new != height:
            parts.append(f"h{width}" if width else "")
            parts.append(f"v{height - new}")
            height, width = new, 0
        width += 1
    return Markup("".join([*parts, f"h{width}V{CURVE_HEIGHT}z"]))  # noqa: S704 - numbers alone


def highest(values: Sequence[float], each: int) -> Sequence[float]:
    """Give the highest of so many values at a time.

    >>> highest([1, 5, 2, 3], 2)
    [5, 3]
    """
    return [max(values[at : at + each]) for at in range(0, len(values), each)]


def round_up(value: float) -> float:
    """Give the next number that reads well: where a scale ends.

    >>> [round_up(each) for each in (0, 3, 7, 41, 41_194)]
    [1, 4, 8, 50, 50000]
    """
    size = 1
    while size * 10 < value:
        size *= 10
    return next(size * step for step in (1, 2, 4, 5, 8, 10) if size * step >= value)


def say_number(value: float) -> str:
    """Write a number as people read it: whole where it is large.

    >>> [say_number(each) for each in (0, 0.25, 4.0, 41_194.4)]
    ['0', '0.25', '4', '41,194']
    """
    if value >= 10 or value == int(value):  # noqa: PLR2004
        return f"{round(value):,}"
    return f"{value:.2g}"


def say_short(value: float) -> str:
    """Write a number where there is little room.

    >>> [say_short(each) for each in (9_999, 41_194, 2_438_116)]
    ['9,999', '41.2 k', '2.4 M']
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size * (1 if letter == "M" else 10):
            return f"{value / size:.1f} {letter}"
    return say_number(value)


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


#: The width of a lane, in its own units, and the least that a bar has of it.
WIDTH: Final = 1_000
_LEAST_BAR: Final = 2.0

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

    lane: Lane
    bars: Sequence[BarDrawing]
    rest: Markup


def drawn(view: Overlaps) -> list[LaneDrawing]:
    """Place the bars of a timeline."""
    whole = view.until - view.since
    return [_lane(lane, view.since, whole) for lane in view.lanes]


def _lane(lane: Lane, since: datetime, whole: timedelta) -> LaneDrawing:
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


def _bar(bar: LaneBar, since: datetime, whole: timedelta) -> BarDrawing:
    y, height = _HEIGHTS.get(bar.tone, (7, 6))
    width = max((bar.until - bar.since) / whole * WIDTH, _LEAST_BAR)
    return BarDrawing(
        x=round(min((bar.since - since) / whole * WIDTH, WIDTH - _LEAST_BAR), 1),
        width=round(width, 1),
        y=y,
        height=height,
        tone=bar.tone.value,
        title=_title(bar),
        execution_id=bar.execution_id,
    )


def _title(bar: LaneBar) -> str:
    times = f"{in_zone(bar.since):%H:%M:%S}-{in_zone(bar.until):%H:%M:%S}"
    if bar.attempts > 1:
        return f"{times}: {bar.attempts} attempts, {bar.tone}"
    return f"{times}: execution {bar.execution_id}, {bar.tone}"


def marks(since: datetime, lasting: timedelta) -> Sequence[str]:
    """Name nine moments, evenly over a window."""
    moments = [in_zone(since + lasting * number / 8) for number in range(9)]
    return [f"{moment:%H:%M}" for moment in moments]


_LEAST_PIECE: Final = 4.0


@attrs.frozen(kw_only=True)
class Piece:
    """A part of the line, in a tone; *attempt* is None where it waited."""

    x: float
    width: float
    tone: str
    attempt: int | None


def strip(story: StoryView) -> Sequence[Piece]:
    """Draw a story, from the first of its steps to the last; what goes on ends now."""
    spans: list[tuple[datetime, datetime, str, int | None]] = []
    for step in story.steps:
        if step.kind == "stands" or step.since is None:
            continue
        number = None if step.attempt is None else step.attempt.attempt
        tone = "waited" if step.tone is None else step.tone.value
        spans.append((step.since, step.until or story.now, tone, number))
    if not spans:
        return ()
    since = min(span[0] for span in spans)
    whole = max(max(span[1] for span in spans) - since, timedelta(milliseconds=1))
    return [
        Piece(
            x=round(min((begin - since) / whole * WIDTH, WIDTH - _LEAST_PIECE), 1),
            width=round(max((end - begin) / whole * WIDTH, _LEAST_PIECE), 1),
            tone=tone,
            attempt=number,
        )
        for begin, end, tone, number in spans
    ]


FILTERS: Final = {
    "badge": badge,
    "severity": severity,
    "tone": tone,
    "glyph": glyph,
    "short": say_short,
    "number": say_number,
    "round_up": round_up,
    "steps": steps,
    "highest": highest,
}
