"""What a page draws: badges of states, bars, curves, lanes, and the line of an execution."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import log1p
from typing import Final

import attrs
from markupsafe import Markup

from cronhare.application.administration.story import StoryView
from cronhare.application.reports.overlaps import Bar as LaneBar
from cronhare.application.reports.overlaps import Lane, Overlaps, Tone
from cronhare.domain.execution import REPLAYABLE, State
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
    try:
        return LOOKS[State(state)]
    except ValueError:
        return _UNKNOWN


def severity(word: str) -> Markup:
    return _badge(SEVERITIES.get(word, _UNKNOWN), word)


def badge(state: State | str, word: str | None = None) -> Markup:
    return _badge(look(state), word or str(state))


def tone(state: State | str) -> str:
    return look(state).tone


def glyph(state: State | str) -> str:
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
    """A bar of a picture; *tone* is its class, and *mark* says that it has a dot above.

    It may have a *title*, and lead to an execution or to its *attempt*.
    """

    x: float
    y: float
    width: float
    height: float
    tone: str = ""
    mark: bool = False
    title: str = ""
    execution_id: int = 0
    attempt: int | None = None


def minutes_chart(minutes: Sequence[int]) -> Sequence[Bar]:
    most = max(minutes, default=0) or 1
    return [
        Bar(
            x=minute * _MINUTE + 1,
            y=round(HEIGHT - height, 1),
            width=_MINUTE - 2,
            height=height,
        )
        for minute, schedules in enumerate(minutes)
        if schedules and (height := round(max(3, HEIGHT * schedules / most), 1))
    ]


def sparkline(runs: Sequence[Run], *, most: int) -> Sequence[Bar]:
    """Draw runs from the left, the newest at the right: as high as they took long.

    What failed is of full height with a mark above; what was skipped is a low stump.
    """
    longest, full = max((run.seconds or 0 for run in runs), default=0), SPARK_HEIGHT - 5

    def height(run: Run) -> float:
        if run.state in REPLAYABLE:
            return full
        if run.seconds is None or run.state is State.SKIPPED:
            return 3.0
        part = log1p(run.seconds * 10) / log1p(longest * 10) if longest else 0
        return round(4 + (full - 4) * part, 1)

    heights = {run: height(run) for run in runs[-most:]}
    return _side_by_side(heights, first=most - len(heights), each=SPARK_WIDTH, whole=SPARK_HEIGHT)


#: A picture of durations: so wide is one run, and so high the longest.
DURATION_WIDTH, DURATION_HEIGHT = 8, 80


def duration_bars(runs: Sequence[Run], *, most: int) -> Sequence[Bar]:
    """Draw how long runs took, the newest at the right; those that never began are left out."""
    longest = max((run.seconds or 0 for run in runs), default=0) or 1
    heights = {
        run: None
        if run.seconds is None
        else round(max(2.0, (DURATION_HEIGHT - 8) * run.seconds / longest), 1)
        for run in runs
    }
    first = most - len(runs)
    return _side_by_side(heights, first=first, each=DURATION_WIDTH, whole=DURATION_HEIGHT)


def _side_by_side(
    heights: Mapping[Run, float | None], *, first: int, each: int, whole: int
) -> Sequence[Bar]:
    return [
        Bar(
            x=place * each,
            y=round(whole - height, 1),
            width=each - 2,
            height=height,
            tone=tone(run.state),
            mark=run.state in REPLAYABLE,
        )
        for place, (run, height) in enumerate(heights.items(), first)
        if height is not None
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
class LaneDrawing:
    """A lane with its bars; *rest* draws those as one path that are too many to lead anywhere."""

    lane: Lane
    bars: Sequence[Bar]
    rest: Markup


def drawn(view: Overlaps) -> list[LaneDrawing]:
    whole = view.until - view.since
    return [_lane(lane, view.since, whole) for lane in view.lanes]


def _lane(lane: Lane, since: datetime, whole: timedelta) -> LaneDrawing:
    bars, rest = list[Bar](), list[Bar]()
    for bar in sorted(lane.bars, key=lambda bar: _ORDER.index(bar.tone)):
        is_one_of_many = len(lane.bars) > _MOST_LINKS and bar.tone is Tone.SUCCEEDED
        (rest if is_one_of_many else bars).append(_bar(bar, since, whole))
    path = "".join(f"M{b.x:g} {b.y:g}h{b.width:g}v{b.height:g}h-{b.width:g}z" for b in rest)
    return LaneDrawing(lane=lane, bars=bars, rest=Markup(path))  # noqa: S704 - numbers alone


def _bar(bar: LaneBar, since: datetime, whole: timedelta) -> Bar:
    y, height = _HEIGHTS.get(bar.tone, (7, 6))
    x, width = _placed(bar.since - since, bar.until - bar.since, whole, least=_LEAST_BAR)
    return Bar(
        x=x,
        width=width,
        y=y,
        height=height,
        tone=bar.tone.value,
        title=_title(bar),
        execution_id=bar.execution_id,
    )


def _placed(
    begins: timedelta, lasts: timedelta, whole: timedelta, *, least: float
) -> tuple[float, float]:
    x = round(min(begins / whole * WIDTH, WIDTH - least), 1)
    return x, round(max(lasts / whole * WIDTH, least), 1)


def _title(bar: LaneBar) -> str:
    times = f"{in_zone(bar.since):%H:%M:%S}-{in_zone(bar.until):%H:%M:%S}"
    if bar.attempts > 1:
        return f"{times}: {bar.attempts} attempts, {bar.tone}"
    return f"{times}: execution {bar.execution_id}, {bar.tone}"


def marks(since: datetime, lasting: timedelta) -> Sequence[str]:
    moments = [in_zone(since + lasting * number / 8) for number in range(9)]
    return [f"{moment:%H:%M}" for moment in moments]


_LEAST_PIECE: Final = 4.0


def strip(story: StoryView) -> Sequence[Bar]:
    """Draw a story, from the first of its steps to the last; what goes on ends now."""
    steps = [step for step in story.steps if step.kind != "stands" and step.since is not None]
    spans = [(step, step.since or story.now, step.until or story.now) for step in steps]
    if not spans:
        return ()
    since = min(begin for _, begin, _ in spans)
    whole = max(max(end for _, _, end in spans) - since, timedelta(milliseconds=1))
    bars = list[Bar]()
    for step, begin, end in spans:
        x, width = _placed(begin - since, end - begin, whole, least=_LEAST_PIECE)
        attempt = None if step.attempt is None else step.attempt.attempt
        tone = "waited" if step.tone is None else step.tone.value
        y, height = (8, 4) if attempt is None else (0, 20)
        bars.append(Bar(x=x, width=width, y=y, height=height, tone=tone, attempt=attempt))
    return bars


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
