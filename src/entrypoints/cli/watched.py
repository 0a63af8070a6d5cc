"""What `--watch` prints: a line for each row that is new or has moved on, for people or as JSON."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from cronhare.domain.texts.moments import say_moment

from .output import console, json_line, state, text

if TYPE_CHECKING:
    from rich.text import Text

Row = TypeVar("Row")

#: Letters of the longest state, and a blank.
_STATE: Final = 12

Watch = Annotated[
    bool, typer.Option("--watch", help="Go on: a line for each that is new or has moved on.")
]


def change_line(
    number: int, at: datetime, stands: str, *, attempt: int | None, schedule: str, rest: str = ""
) -> "Text":
    """Write one line that fits 80 letters, as far as names allow."""
    said = "" if attempt is None else f"#{attempt}"
    line = text(f"{number:>8}  {say_moment(at)}  ") + state(stands).drawn()
    return line + text(f"{'':{_STATE - len(stands)}}{said:<4} {schedule}{rest}")


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
