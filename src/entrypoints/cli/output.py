"""What commands print: tables for people, JSON for pipes.

rich is imported for a terminal, and for what must be folded or has letters of other widths: plain
lines, plain tables and JSON in a pipe go without. So is what writes JSON: a page of help goes
without both.
"""

import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for pipes.")]

#: Characters of a line where there is no terminal.
PIPE_WIDTH = 240

#: In a narrow window a word of more letters may be folded.
LONGEST_WHOLE: Final = 24
#: Characters that a column needs at least whose words may be folded.
LEAST_WIDTH: Final = 8
_GAP: Final = 2

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
    "draining": "yellow",
    "drained": "yellow",
    "silent": "red",
    "disconnected": "red",
}


def console() -> "Console":
    """Make a console for standard output: colours and the window's width on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - as the module says

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(highlight=False, width=width, soft_wrap=False)


def print_json(value: Any) -> None:  # noqa: ANN401 - anything msgspec can write
    """Print a value as one JSON document."""
    from ..json_text import as_json  # noqa: PLC0415 - as the module says

    sys.stdout.write(as_json(value, encode=_encode, indent=2) + "\n")


def json_line(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value on one line, to stand among other facts."""
    from ..json_text import as_json  # noqa: PLC0415 - as the module says

    return as_json(value, encode=_encode)


def print_line(sentence: str, *, style: str = "", indent: int = 0) -> None:
    """Print a sentence, without markup and with what it quotes escaped.

    One that holds a command is left to the window to fold: it is copied, and breaks of ours would
    be pasted with it.
    """
    shown = printable(sentence)
    if sys.stdout.isatty() or not shown.isascii() or len(shown) > PIPE_WIDTH - indent:
        from rich.padding import Padding  # noqa: PLC0415 - as the module says

        said = text(sentence, style=style)
        if "`" in shown:
            said.pad_left(indent)
            _print(said, soft_wrap=True)
        else:
            _print(Padding(said, (0, 0, 0, indent), expand=False))
    else:
        sys.stdout.write(f"{' ' * indent}{shown}\n")
        sys.stdout.flush()  # whoever waits for a run is told its number first


def print_notes(notes: Iterable[object]) -> None:
    """Print what is allowed and probably not meant."""
    for note in notes:
        print_line(f"note: {note}", style="yellow", indent=2)


def text(shown: str, *, style: str = "") -> "Text":
    """Make a piece of a line; what could begin another line is escaped."""
    from rich.text import Text  # noqa: PLC0415 - as the module says

    return Text(printable(shown), style=style)


def table(*columns: str, rows: Iterable[Iterable[object]], empty: str) -> None:
    """Print a table without a frame, or *empty* if it has no rows.

    In a narrow window texts are folded at their blanks, and numbers, names and states stay whole as
    far as there is room; nothing is cut off.
    """
    cells = [tuple(row) for row in rows]
    if not cells:
        print_line(empty)
        return
    if print_plainly([columns, *([*map(_written, row)] for row in cells)]):
        return
    out, grid = console(), _grid(columns, [[*map(_cell, row)] for row in cells])
    if out.measure(grid, options=out.options.update(max_width=out.width + 1)).maximum > out.width:
        headings = [name.replace(" ", "\n") for name in columns]
        narrow = [[*map(_narrow_cell, row)] for row in cells]
        grid = _grid(headings, narrow, whole=_whole_columns(headings, narrow, out.width))
    _print(grid)


def print_plainly(lines: Sequence[Sequence[str]]) -> bool:
    """Print rows of texts below each other, where that can be done without rich: tells whether.

    In a pipe, if each letter is as wide as the others and no line is to be folded.
    """
    shown = [[printable(cell) for cell in line] for line in lines]
    if sys.stdout.isatty() or not all(cell.isascii() for line in shown for cell in line):
        return False
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    if sum(widths) + _GAP * (len(widths) - 1) > PIPE_WIDTH:
        return False
    for line in shown:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write(f"{(' ' * _GAP).join(cells).rstrip()}\n")
    return True


def _grid(
    headings: Sequence[str],
    cells: "Sequence[Sequence[Text]]",
    *,
    whole: Sequence[bool] | None = None,
) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - as the module says

    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for name, is_whole in zip(headings, whole or [False] * len(headings), strict=True):
        grid.add_column(name, overflow="fold", no_wrap=is_whole)
    for row in cells:
        grid.add_row(*row)
    return grid


def _whole_columns(
    headings: Sequence[str], cells: "Sequence[Sequence[Text]]", width: int
) -> Sequence[bool]:
    """Say which columns are not folded: those of single words, but the widest where room lacks."""
    columns = [
        [name, *(cell.plain for cell in column)]
        for name, column in zip(headings, zip(*cells, strict=True), strict=True)
    ]
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    foldable = {
        index
        for index, column in enumerate(columns)
        if widths[index] > LONGEST_WHOLE or any(" " in cell for cell in column)
    }
    times = {i for i, column in enumerate(columns) if any("\n" in cell for cell in column[1:])}
    room = width - _GAP * (len(columns) - 1)
    while candidates := set(range(len(columns))) - foldable - times:
        if _least_width(widths, foldable) <= room:
            break
        foldable.add(max(candidates, key=widths.__getitem__))
    return [index not in foldable for index in range(len(columns))]


def _least_width(widths: Sequence[int], foldable: Collection[int]) -> int:
    return sum(
        min(wide, LEAST_WIDTH) if index in foldable else wide for index, wide in enumerate(widths)
    )


def _print(content: "RenderableType", *, soft_wrap: bool = False) -> None:
    """Print without the blanks at the ends of lines."""
    out = console()
    with out.capture() as captured:
        out.print(content, soft_wrap=soft_wrap)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


class Styled:
    """The name of a state, and what is said beside it: rich's text only where it is drawn."""

    def __init__(self, name: str, rest: str) -> None:
        """The *name* alone has a colour."""
        self._name, self._rest = name, rest

    def __str__(self) -> str:
        return f"{self._name}{self._rest}"

    def drawn(self) -> "Text":
        """Give it as it is drawn."""
        return text(self._name, style=STATE_COLOURS.get(self._name, "")).append(self._rest)


def state(name: str, rest: str = "") -> Styled:
    """Show a state in its colour."""
    return Styled(name, rest)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other, a value's lines too; None is left out."""
    from rich.table import Table  # noqa: PLC0415 - as the module says
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in pairs:
        if value is not None:
            if isinstance(value, Styled):
                shown = value.drawn()
            else:
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

    if isinstance(value, Styled):
        return value.drawn()
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
