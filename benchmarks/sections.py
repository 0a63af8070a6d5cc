"""The sections of a benchmark: chosen by name, measured in a row, shown in one table."""

import argparse
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from figures import Figure, table_of
from rich.console import Console

T = TypeVar("T")

#: Measures something in what was opened for all of them.
Sections = Mapping[str, Callable[[T], list[Figure]]]


def run(
    doc: str | None, sections: Sections[T], opened: Callable[[Path], AbstractContextManager[T]]
) -> None:
    """Measure what the command line names, on what *opened* makes in a folder thrown away."""
    chosen = _asked_for(doc, sections)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    news = Console(stderr=True, style="dim")  # no spinner: its thread would be measured too
    figures: list[tuple[str, list[Figure]]] = []
    with (
        tempfile.TemporaryDirectory(prefix="cronhare-bench-") as folder,
        opened(Path(folder)) as place,
    ):
        for name in chosen:
            news.print(f"measuring: {name}")
            figures.append((name, sections[name](place)))
    Console(width=140).print(table_of(figures))


def _asked_for(doc: str | None, sections: Sections[T]) -> list[str]:
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(sections))
    named: list[str] = parser.parse_args().sections
    if unknown := set(named) - set(sections):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(sections)}")
    return named or list(sections)
