"""Bars for what takes long: on a terminal alone, on stderr, and gone when it is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Final

from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.texts.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress

#: Seconds that people wait without wondering.
UNNOTICED: Final = 0.7

#: Seconds between two counts that are shown: to draw one takes longer than most of what is counted.
_COUNT_EVERY: Final = 0.1


@contextmanager
def working(what: str) -> Iterator[OnProgress]:
    """Show what goes on, and for how long it has, if it takes longer than people wait gladly.

    How far it has come is shown as well, once that is told.
    """
    if not sys.stderr.isatty():
        yield unwatched
        return
    shown: list[Progress] = []
    looked_at = monotonic()

    def show() -> None:
        bar = make_bar()
        bar.add_task(printable(what), total=None)
        bar.start()
        shown.append(bar)

    def on_progress(done: int, total: int) -> None:
        nonlocal looked_at
        if shown and (now := monotonic()) - looked_at >= _COUNT_EVERY:
            looked_at = now
            [bar] = shown
            bar.update(bar.task_ids[0], completed=done, total=total)

    timer = Timer(UNNOTICED, show)
    timer.start()
    try:
        yield on_progress
    finally:
        timer.cancel()
        timer.join()
        for bar in shown:
            bar.stop()


def make_bar() -> "Progress":
    """Make a bar with its time, which vanishes at the end; without a terminal there is none."""
    from rich.console import Console  # noqa: PLC0415 - whoever is done soon does without
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
