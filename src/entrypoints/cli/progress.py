"""Bars for what takes long: on a terminal alone, on stderr, and gone when it is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress

#: Seconds that people wait without wondering.
UNNOTICED: Final = 0.7


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what goes on, and for how long it has, if it takes longer than people wait gladly."""
    if not sys.stderr.isatty():
        yield
        return
    shown: list[Progress] = []

    def show() -> None:
        bar = make_bar()
        bar.add_task(what, total=None)
        bar.start()
        shown.append(bar)

    timer = Timer(UNNOTICED, show)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for bar in shown:
            bar.stop()


def make_bar() -> "Progress":
    """Make a bar with its time, which vanishes at the end."""
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
    )
