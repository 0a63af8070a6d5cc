"""Figures of a run: ours beside the goal and beside the original algorithm, in one table."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable

import attrs
from rich.table import Table

#: Units of which more is better; of all others less is.
RATES = frozenset({"/s"})


@attrs.frozen(kw_only=True)
class Figure:
    """One line of the table. *theirs* is the original algorithm's figure, in the same unit.

    *goal* is the most that the figure may be; of a rate, the least.
    """

    what: str
    ours: float
    unit: str
    goal: float | None = None
    theirs: float | None = None
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the goal was reached; what has none always has."""
        if self.goal is None:
            return True
        return self.ours >= self.goal if self.unit in RATES else self.ours <= self.goal

    @property
    def advantage(self) -> float | None:
        """How many times better ours is."""
        if self.theirs is None:
            return None
        return self.ours / self.theirs if self.unit in RATES else self.theirs / self.ours


def table_of(sections: Iterable[tuple[str, list[Figure]]]) -> Table:
    """Lay the figures out, section by section."""
    table = Table(title="cronhare beside the original algorithm", title_justify="left")
    table.add_column("what")
    for heading in ("cronhare", "goal", "the original", "times"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("how")
    for title, figures in sections:
        table.add_section()
        table.add_row(f"[bold]{title}")
        for figure in figures:
            table.add_row(*_cells(figure))
    return table


def _cells(figure: Figure) -> tuple[str, ...]:
    bound = "≥" if figure.unit in RATES else "≤"
    colour = "green" if figure.is_met else "red"
    goal = "" if figure.goal is None else f"[{colour}]{bound} {_say(figure.goal, figure.unit)}"
    theirs = "" if figure.theirs is None else _say(figure.theirs, figure.unit)
    times = (
        "" if figure.advantage is None else f"x {figure.advantage:,.{_places(figure.advantage)}f}"
    )
    return figure.what, _say(figure.ours, figure.unit), goal, theirs, times, figure.note


def _say(value: float, unit: str) -> str:
    return f"{value:,.{_places(value)}f} {unit}".replace(" /s", "/s")


def _places(value: float) -> int:
    """Three figures say all that a noisy machine knows."""
    if value == 0:
        return 0
    return next((places for places, least in enumerate((100, 10, 1, 0.1)) if value >= least), 4)


def median_of(times: int, measure: Callable[[], float]) -> float:
    """Measure several times; on a busy machine the median is what can be repeated."""
    return statistics.median(measure() for _ in range(times))


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time, without what an earlier measurement left to the garbage collector."""
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
