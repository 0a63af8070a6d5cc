"""What commands print: JSON for pipes; for people tables, facts and sentences.

On a terminal rich draws them, with colours, as wide as the window. In a pipe they are plain text,
whole and without rich.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from cronhare.domain.texts.moments import UNITS, in_zone, say_due, say_moment, say_offset
from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import listed

from .times import display_zone

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for pipes.")]

#: A list's columns, by their headings: an attribute of what a row shows, or made of it.
Columns: TypeAlias = Mapping[str, str | Callable[[T], object]]

#: Characters that are left at least of a text that is shortened.
LEAST_WIDTH: Final = 12
_GAP: Final = 2

STATE_COLOURS: Final = {
    **dict.fromkeys(("succeeded", "delivered", "done"), "green"),
    **dict.fromkeys(("running", "active"), "cyan"),
    **dict.fromkeys(("skipped", "cancelled", "handed-over"), "bright_black"),
    **dict.fromkeys(
        ("retrying", "waiting", "stopped", "half-open", "draining", "drained"), "yellow"
    ),
    **dict.fromkeys(
        ("failed", "quarantined", "given-up", "expired", "open", "silent", "disconnected"), "red"
    ),
}


def is_terminal() -> bool:
    """Tell whether a person reads standard output as it comes."""
    return sys.stdout.isatty()


def console() -> "Console":
    """Make a console for standard output: colours on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - for a terminal

    return Console(highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:  # noqa: ANN401 - anything msgspec can write
    """Print a value as one JSON document."""
    from ..json_text import as_json  # noqa: PLC0415 - a page of help does without

    sys.stdout.write(as_json(value, encode=str, indent=2) + "\n")


def json_line(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value on one line, to stand among other facts."""
    from ..json_text import as_json  # noqa: PLC0415 - a page of help does without

    return as_json(value, encode=str)


def print_line(sentence: str, *, style: str = "", indent: int = 0) -> None:
    """Print a sentence, without markup and with what it quotes escaped.

    One that holds a command is left to the window to fold: it is copied, and breaks of ours would
    be pasted with it.
    """
    if not (sentence and is_terminal()):
        sys.stdout.write(f"{' ' * indent}{printable(sentence)}\n")
        sys.stdout.flush()  # whoever waits for a run is told its number first
        return
    from rich.padding import Padding  # noqa: PLC0415 - for a terminal

    said = text(sentence, style=style)
    if "`" in sentence:
        said.pad_left(indent)
        _print(said, soft_wrap=True)
    else:
        _print(Padding(said, (0, 0, 0, indent), expand=False))


def print_beside(sentence: str, *, json: bool) -> None:
    """Print a sentence beside what was asked for: on stderr where that is a JSON document."""
    if json:
        sys.stderr.write(f"{printable(sentence)}\n")
        sys.stderr.flush()
    else:
        print_line(sentence)


def answer(value: Any, *sentences: str, json: bool) -> None:  # noqa: ANN401 - as `print_json`
    """Print a value as JSON, or what there is to say of it."""
    if json:
        print_json(value)
    for sentence in () if json else sentences:
        print_line(sentence)


def print_notes(notes: Iterable[object]) -> None:
    """Print what is allowed and probably not meant."""
    for note in notes:
        print_line(f"note: {note}", style="yellow", indent=2)


def text(shown: str, *, style: str = "") -> "Text":
    """Make a piece of a line; what could begin another line is escaped."""
    from rich.text import Text  # noqa: PLC0415 - for a terminal

    return Text(printable(shown), style=style)


class Styled:
    """The name of a state in its colour, and what is said beside it."""

    def __init__(self, name: str, rest: str = "", *, colour: str | None = None) -> None:
        self._name, self._rest = name, rest
        self._colour = STATE_COLOURS.get(name, "") if colour is None else colour

    def __str__(self) -> str:
        return f"{self._name}{self._rest}"

    def drawn(self) -> "Text":
        """Give it as it is drawn: the name alone has a colour."""
        return text(self._name, style=self._colour).append(printable(self._rest))


def print_rows(
    found: Sequence[T],
    columns: Columns[T],
    *,
    json: bool,
    empty: str,
    spare: Sequence[str] = (),
    elastic: Collection[str] = (),
) -> None:
    """Print views as JSON, or as a list of one line each: on a terminal with times beside now.

    Where room lacks, *spare* columns are left out in their order, and then texts in *elastic* ones
    are shortened, of which a last line tells.
    """
    if json:
        print_json(found)
        return
    of_columns = [attrgetter(of) if isinstance(of, str) else of for of in columns.values()]
    now = datetime.now(UTC)

    def say(value: object) -> object:
        if isinstance(value, datetime):
            return say_beside(value, now) if is_terminal() else moment(value)
        return value

    rows = [[say(of(each)) for of in of_columns] for each in found]
    table(*columns, rows=rows, empty=empty, spare=spare, elastic=elastic)


def table(
    *headings: str,
    rows: Iterable[Iterable[object]],
    empty: str,
    spare: Sequence[str] = (),
    elastic: Collection[str] | None = None,
) -> None:
    """Print a table without a frame, or *empty* if it has no rows.

    In a narrow window it is folded, and nothing is cut off; or as `print_rows` says, where
    *elastic* is given.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        print_line(empty)
    elif is_terminal():
        _draw(headings, cells, spare=spare, elastic=elastic)
    else:
        lines = [[*headings], *([printable(str(cell)) for cell in row] for row in cells)]
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = (
                f"{one}{' ' * (to - _width(one))}" for one, to in zip(line, widths, strict=True)
            )
            sys.stdout.write(f"{(' ' * _GAP).join(padded).rstrip()}\n")


def _draw(
    headings: Sequence[str],
    rows: Sequence[Sequence[Styled]],
    *,
    spare: Sequence[str],
    elastic: Collection[str] | None,
) -> None:
    from rich.table import Table  # noqa: PLC0415 - for a terminal

    window, is_list = console().width, elastic is not None
    columns = [
        (name, [text(name, style="bold"), *(cell.drawn() for cell in column)])
        for name, column in zip(headings, zip(*rows, strict=True), strict=True)
    ]

    def least(name: str, cells: "Sequence[Text]") -> int:
        whole = max(cell.cell_len for cell in cells)
        return min(whole, LEAST_WIDTH) if name in (elastic or ()) else whole

    def over(width_of: "Callable[[str, Sequence[Text]], int]") -> bool:
        """Tell whether the columns are wider than the window."""
        return sum(width_of(*column) + _GAP for column in columns) - _GAP > window

    left_out = list[str]()
    for name in spare:
        if over(least):
            left_out.append(name)
            columns = [column for column in columns if column[0] != name]
    keeps = is_list and not over(least)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    for name, cells in columns:
        grid.add_column(
            overflow="ellipsis" if is_list else "fold",
            no_wrap=keeps and name not in (elastic or ()),
            min_width=least(name, cells) if keeps else None,
        )
    for row in zip(*(cells for _, cells in columns), strict=True):
        for cell in row:
            cell.no_wrap = is_list
        grid.add_row(*row)
    _print(grid)
    if left_out:
        missing = f"Without {listed(left_out)}, for want of room"
    elif is_list and over(lambda _, cells: max(cell.cell_len for cell in cells)):
        missing = "Shortened, for want of room"
    else:
        return
    print_line(f"{missing}: --json has all.", style="bright_black")


def _width(shown: str) -> int:
    """Count the cells that a text takes: letters of some scripts are two wide."""
    if shown.isascii():
        return len(shown)
    from rich.cells import cell_len  # noqa: PLC0415 - most texts do without

    return cell_len(shown)


def _print(content: "RenderableType", *, soft_wrap: bool = False) -> None:
    """Print without the blanks at the ends of lines."""
    out = console()
    with out.capture() as captured:
        out.print(content, soft_wrap=soft_wrap)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other, a value's lines too; None is left out."""
    known = [(name, value) for name, value in pairs if value is not None]
    if not is_terminal():
        width = max(len(name) for name, _ in known) + _GAP
        for name, value in known:
            first, *others = printable_lines(_written(value)).split("\n")
            sys.stdout.write(f"{name:{width}}{first}".rstrip() + "\n")
            sys.stdout.writelines(f"{'':{width}}{line}".rstrip() + "\n" for line in others)
        return
    from rich.table import Table  # noqa: PLC0415 - for a terminal
    from rich.text import Text  # noqa: PLC0415 - as above

    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for name, value in known:
        if isinstance(value, Styled):
            shown = value.drawn()
        else:
            shown = Text(printable_lines(_written(value)))
        grid.add_row(Text(name, style="bold"), shown)
    _print(grid)


def printable_lines(shown: str) -> str:
    """Escape control characters in a text of several lines."""
    return printable(shown.replace("\r\n", "\n"), keep="\t\n")


def moment(value: datetime | None) -> str | None:
    """Write a moment to the second, in the zone that people are shown."""
    return None if value is None else say_moment(value, display_zone())


def due(value: datetime) -> str:
    """Write a due instant to the minute unless it is none, in the zone that people are shown."""
    return say_due(value, display_zone())


def _cell(value: object) -> Styled:
    return value if isinstance(value, Styled) else Styled(_written(value), colour="")


def _written(value: object) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return moment(value) or "-"
        case _:
            return str(value)


_SECOND, _MINUTE, _HOUR, _DAY = (UNITS[unit] for unit in "smhd")
#: From here on the day of the week says less than the date; and further away a number of days.
_WEEK: Final = 6 * _DAY
_FAR: Final = 60 * _DAY


def say_left(length: timedelta) -> str:
    """Print a length of time in its largest unit, rounded down.

    >>> say_left(timedelta(minutes=3, seconds=20)), say_left(timedelta(hours=50))
    ('3 min', '2 d')
    """
    if length < _MINUTE:
        return f"{length // _SECOND} s"
    if length < _HOUR:
        return f"{length // _MINUTE} min"
    if length < 2 * _DAY:
        return f"{length // _HOUR} h"
    return f"{length // _DAY} d"


def say_took(length: timedelta) -> str:
    """Print how long something took.

    >>> say_took(timedelta(milliseconds=120)), say_took(timedelta(seconds=200))
    ('0.12 s', '3 min 20 s')
    """
    seconds = length / _SECOND
    if length < _MINUTE:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if length < _HOUR:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def say_beside(moment: datetime, now: datetime) -> str:
    """Print a moment as people think of it beside *now*; one that is far away as its date.

    >>> say_beside(datetime(2026, 3, 2, 12, 3, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    'in 3 min'
    >>> say_beside(datetime(2026, 3, 2, 10, 0, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC))
    '2 h ago'
    """
    length = moment - now
    if abs(length) >= _FAR:
        return f"{in_zone(moment, display_zone()):%Y-%m-%d}"
    if abs(length) < _SECOND:
        return "now"
    return f"in {say_left(length)}" if length > timedelta(0) else f"{say_left(-length)} ago"


def say_near(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Print a due instant without what it has in common with today.

    >>> noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    >>> say_near(noon + timedelta(minutes=3), noon, UTC)
    '12:03Z'
    >>> say_near(noon + timedelta(days=2), noon, UTC)
    'Wed 12:00Z'
    """
    there = in_zone(moment, zone)
    if abs(moment - now) >= _FAR:
        return f"{there:%Y-%m-%d}"
    if abs(moment - now) >= _WEEK:
        return f"{there:%m-%d}"
    time = f"{there:{'%H:%M:%S' if there.second else '%H:%M'}}{say_offset(there)}"
    return time if there.date() == now.astimezone(zone).date() else f"{there:%a} {time}"
