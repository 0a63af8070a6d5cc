"""Numbers to paths of SVG, one unit wide for each: the style sheet stretches a chart."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

#: The height of a chart, in its own units.
HEIGHT: Final = 100


def steps(values: Sequence[float], top: float) -> Markup:
    """Draw a filled line that steps from value to value, each one unit wide; *top* is full height.

    >>> steps([1, 1, 2], 2)
    Markup('M0 100v-50h2v-50h1V100z')
    """
    parts, height, width = [f"M0 {HEIGHT}"], 0, 0
    for value in values:
        new = min(round(value / top * HEIGHT), HEIGHT) if top else 0
        if value and not new:
            new = 1  # what is there is seen
        if new != height:
            parts.append(f"h{width}" if width else "")
            parts.append(f"v{height - new}")
            height, width = new, 0
        width += 1
    return Markup("".join([*parts, f"h{width}V{HEIGHT}z"]))  # noqa: S704 - numbers alone


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


FILTERS: Final = {
    "short": say_short,
    "number": say_number,
    "round_up": round_up,
    "steps": steps,
    "highest": highest,
}
