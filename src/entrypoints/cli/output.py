"""What commands print: tables for people, JSON for pipes.

rich is imported for a table, a colour or a terminal: a plain line or JSON in a pipe goes without.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import printable

from ..json_text import as_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

T = TypeVar("T")

#: A table's columns, by their headings: an attribute of what a row shows, or made of it.
Columns: TypeAlias = Mapping[str, str | Callable[[T], object]]

#: The most rows or instants that can be asked for at once.
MOST_LINES: Final = 10_000

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for pipes.")]

#: Characters of a line where there is no terminal.
PIPE_WIDTH = 240

STATE_COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "quarantined": "red",
    "running": "cyan",
    "retrying": "yellow",
    "skipped": "bright_black",
    "cancelled": "bright_black",
    "handed-over": "bright_black",
    "delivered": "green",
    "waiting": "yellow",
    "given-up": "red",
    "expired": "red",
    "active": "cyan",
    "stopped": "yellow",
    "done": "green",
    "open": "red",
    "half-open": "yellow",
}


def console() -> "Console":
    """Make a console for standard output: colours and the window's width on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - as the module says

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(highlight=False, width=width, soft_wrap=False)


def print_json(value: Any) -> None:  # noqa: ANN401 - anything msgspec can write
    """Print a value as one JSON document."""
    sys.stdout.write(as_json(value, encode=_encode, indent=2) + "\n")


def json_line(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value on one line, to stand among other facts."""
    return as_json(value, encode=_encode)


def print_line(sentence: str, *, style: str = "") -> None:
    """Print a sentence, without markup and with what it quotes escaped."""
    shown = printable(sentence)
    if style or sys.stdout.isatty() or not shown.isascii() or len(shown) > PIPE_WIDTH:
        console().print(text(sentence, style=style))
    else:
        sys.stdout.write(f"{shown}\n")


def print_notes(notes: Iterable[object]) -> None:
    """Print what is allowed and probably not meant."""
    for note in notes:
        print_line(f"  note: {note}", style="yellow")


def text(shown: str, *, style: str = "") -> "Text":
    """Make a piece of a line; what could begin another line is escaped."""
    from rich.text import Text  # noqa: PLC0415 - as the module says

    return Text(printable(shown), style=style)


def print_rows(
    found: Sequence[T],
    columns: Columns[T],
    *,
    json: bool,
    empty: str,
) -> None:
    """Print views as JSON, or as a table."""
    if json:
        print_json(found)
        return
    cells = [attrgetter(of) if isinstance(of, str) else of for of in columns.values()]
    table(*columns, rows=[[cell(each) for cell in cells] for each in found], empty=empty)


def table(*columns: str, rows: Iterable[Iterable[object]], empty: str) -> None:
    """Print a table without a frame, or *empty* if it has no rows.

    In a narrow window times are folded at their blanks, and nothing is cut off.
    """
    cells = [tuple(row) for row in rows]
    if not cells:
        _print(empty)
        return
    out, grid = console(), _grid(columns, cells, _cell)
    if out.measure(grid, options=out.options.update(max_width=out.width + 1)).maximum > out.width:
        grid = _grid(columns, cells, _narrow_cell)
    _print(grid)


def _grid(
    columns: Sequence[str], cells: Sequence[Sequence[object]], shown: Callable[[object], "Text"]
) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - as the module says

    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, column in zip(columns, zip(*cells, strict=True), strict=True):
        has_times = any(isinstance(cell, datetime) for cell in column)
        grid.add_column(name, overflow="fold", no_wrap=has_times)
    for row in cells:
        grid.add_row(*map(shown, row))
    return grid


def _print(content: "Table | str") -> None:
    """Print without the blanks at the ends of lines."""
    out = console()
    with out.capture() as captured:
        out.print(content)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def state(name: str) -> "Text":
    """Show a state in its colour."""
    return text(name, style=STATE_COLOURS.get(name, ""))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other, a value's lines too; None is left out."""
    from rich.table import Table  # noqa: PLC0415 - as the module says
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in pairs:
        if value is not None:
            shown = value if isinstance(value, Text) else Text(printable_lines(_written(value)))
            grid.add_row(Text(name, style="bold"), shown)
    _print(grid)


def printable_lines(shown: str) -> str:
    """Escape control characters in a text of several lines."""
    return printable(shown.replace("\r\n", "\n"), keep="\t\n")


def moment(value: datetime | None) -> str | None:
    """Write a moment in UTC, with the local time beside it where that differs."""
    if value is None:
        return None
    local, shown = local_time(value), say_moment(value)
    return f"{shown} ({local:%H:%M:%S %Z})" if local and local.utcoffset() else shown


def local_time(value: datetime, zone: tzinfo | None = None) -> datetime | None:
    """Give a moment in *zone*, or this machine's; None at an end of the calendar, beyond years."""
    try:
        return value.astimezone(zone)
    except (OverflowError, ValueError):
        return None


def _cell(value: object) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - as the module says

    return value if isinstance(value, Text) else text(_written(value))


def _narrow_cell(value: object) -> "Text":
    """Fold a time where it may be folded: date, time, local time."""
    from rich.text import Text  # noqa: PLC0415 - as the module says

    return (
        Text(_written(value).replace(" ", "\n", 2)) if isinstance(value, datetime) else _cell(value)
    )


def _written(value: object) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return moment(value) or "-"
        case _:
            return str(value)


def _encode(value: object) -> object:
    return str(value)
