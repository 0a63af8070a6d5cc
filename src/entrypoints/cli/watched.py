"""What `--watch` prints: a line for each row that is new or has moved on, for people or as JSON."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from .output import console, json_line

if TYPE_CHECKING:
    from rich.text import Text

Row = TypeVar("Row")

Watch = Annotated[
    bool, typer.Option("--watch", help="Go on: a line for each that is new or has moved on.")
]


def print_changes(
    looks: Iterable[Sequence[Row]], line_of: "Callable[[Row], Text]", *, json: bool
) -> None:
    """Print a line for each change; as JSON each look at which something has changed is one.

    Each is cut off at the window's width.
    """
    for moved in looks:
        if json and moved:
            sys.stdout.write(f"{json_line(moved)}\n")
        elif not json:
            for row in moved:
                console().print(line_of(row), no_wrap=True, overflow="ellipsis")
        sys.stdout.flush()
