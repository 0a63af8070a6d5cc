"""What commands print: JSON for pipes; for people tables, facts and sentences.

A terminal is given colours, and lines that fit its window; a pipe whole lines of plain text.
Bars are on stderr.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import zip_longest
from operator import attrgetter
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import listed

from .times import moment, say_beside

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for pipes.")]

#: A list's columns, by their headings: an attribute of what a row shows, or made of it.
Columns: TypeAlias = Mapping[str, str | Callable[[T], object]]

#: Characters that are left at least of a text that is shortened.
LEAST_WIDTH: Final = 12
_GAP: Final = 2

#: The escape sequences of colours and styles (ECMA-48).
_CODES: Final = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "cyan": 36,
    "bright_black": 90,
}
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
    return sys.stdout.isatty()


def window() -> int:
    return shutil.get_terminal_size().columns


def in_colour(shown: str, style: str, *, on_terminal: bool | None = None) -> str:
    """Write a text in a colour, where there may be any: see https://no-color.org."""
    has_none = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not style or has_none or not (is_terminal() if on_terminal is None else on_terminal):
        return shown
    return f"\x1b[{_CODES[style]}m{shown}\x1b[0m"


class Styled:
    """The name of a state in its colour, and what is said beside it."""

    def __init__(self, name: str, rest: str = "", *, colour: str | None = None) -> None:
        self.text = printable(f"{name}{rest}")
        self._coloured = len(printable(name))
        self._colour = STATE_COLOURS.get(name, "") if colour is None else colour

    def __str__(self) -> str:
        return self.text

    def drawn(self, line: str | None = None) -> str:
        line = self.text if line is None else line
        return in_colour(line[: self._coloured], self._colour) + line[self._coloured :]


def print_json(value: Any) -> None:  # noqa: ANN401 - anything msgspec can write
    from ..json_text import as_json  # noqa: PLC0415 - a page of help does without

    sys.stdout.write(as_json(value, encode=str, indent=2) + "\n")


def json_line(value: Any) -> str:  # noqa: ANN401 - any JSON value
    from ..json_text import as_json  # noqa: PLC0415 - a page of help does without

    return as_json(value, encode=str)


def print_line(sentence: str, *, style: str = "", indent: int = 0) -> None:
    """Print a sentence, with control characters escaped.

    One that holds a command is left to the window to fold: it is copied, and breaks of ours would
    be pasted with it.
    """
    blank, lines = " " * indent, [printable(sentence)]
    if is_terminal() and "`" not in sentence:
        lines = _folded(lines[0], window() - indent)
    for line in lines:
        sys.stdout.write(f"{blank}{in_colour(line, style)}\n")
    sys.stdout.flush()  # whoever waits for a run is told its number first


def print_beside(sentence: str, *, json: bool) -> None:
    """Print a sentence beside what was asked for: on stderr where that is a JSON document."""
    if json:
        print_error(sentence)
    else:
        print_line(sentence)


def print_error(sentence: str, *, style: str = "") -> None:
    with suppress(OSError):
        line = in_colour(printable(sentence), style, on_terminal=sys.stderr.isatty())
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def answer(value: Any, *sentences: str, json: bool) -> None:  # noqa: ANN401 - as `print_json`
    if json:
        print_json(value)
    for sentence in () if json else sentences:
        print_line(sentence)


def print_notes(notes: Iterable[object]) -> None:
    for note in notes:
        print_line(f"note: {note}", style="yellow", indent=2)


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

    Where room lacks, *spare* columns are left out in their order, and then texts are shortened,
    first those in *elastic* columns; a last line says so.
    """
    if json:
        print_json(found)
        return
    of_columns = [attrgetter(of) if isinstance(of, str) else of for of in columns.values()]
    now = datetime.now(UTC) if is_terminal() else None

    def say(value: object) -> object:
        return say_beside(value, now) if now and isinstance(value, datetime) else value

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
    cells = [
        [each if isinstance(each, Styled) else Styled(_written(each), colour="") for each in row]
        for row in rows
    ]
    if not cells:
        print_line(empty)
        return
    cells.insert(0, [Styled(name, colour="bold") for name in headings])
    widths = {at: max(_width(row[at].text) for row in cells) for at in range(len(headings))}
    on_terminal, note = is_terminal(), ""
    if on_terminal:
        note = _make_room(widths, headings, spare=spare, elastic=elastic or ())
    for row in cells:
        texts = [(row[at].text, width) for at, width in widths.items()]
        if on_terminal and elastic is None:
            parts = [_folded(*each) for each in texts]
        else:
            parts = [[shortened_to(*each) if on_terminal else each[0]] for each in texts]
        for number, line in enumerate(zip_longest(*parts, fillvalue="")):
            drawn = [
                (row[at].drawn(part) if number == 0 else part) + " " * (widths[at] - _width(part))
                for at, part in zip(widths, line, strict=True)
            ]
            sys.stdout.write(f"{(' ' * _GAP).join(drawn).rstrip()}\n")
    if note and elastic is not None:
        print_line(f"{note}, for want of room: --json has all.", style="bright_black")


def _make_room(
    widths: dict[int, int],
    headings: Sequence[str],
    *,
    spare: Sequence[str],
    elastic: Collection[str],
) -> str:
    """Fit columns into the window, and say what was done for it.

    *spare* columns are left out; then the widest *elastic* one gives way, and at last the widest.
    """
    room, left_out = window(), list[str]()
    gives = {at for at in widths if headings[at] in elastic}

    def over(least: int) -> int:
        taken = (min(width, least) if at in gives else width for at, width in widths.items())
        return sum(taken) + _GAP * (len(widths) - 1) - room

    for name in spare:
        if over(LEAST_WIDTH) > 0:
            left_out.append(name)
            del widths[headings.index(name)]
    is_shortened = sum(widths.values()) + _GAP * (len(widths) - 1) > room
    widths.update({at: min(width, room) for at, width in widths.items()})
    for among, least in ((gives & widths.keys(), LEAST_WIDTH), ([*widths], 1)):
        while over(room) > 0:
            widest = max(among, key=widths.__getitem__, default=None)
            if widest is None or widths[widest] <= least:
                break
            widths[widest] -= 1
    if left_out:
        return f"Without {listed(left_out)}"
    return "Shortened" if is_shortened else ""


def _folded(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_on_hyphens=False) or [text]


def shortened_to(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    from rich.cells import set_cell_size  # noqa: PLC0415 - for narrow windows

    return f"{set_cell_size(text, max(width - 1, 0))}…"


def _width(shown: str) -> int:
    if shown.isascii():
        return len(shown)
    from rich.cells import cell_len  # noqa: PLC0415 - most texts do without

    return cell_len(shown)


#: Letters of the longest state, and a blank.
_STATE: Final = 12


def change_line(
    number: int, at: datetime, stands: str, *, attempt: int | None, schedule: str
) -> str:
    said = "" if attempt is None else f"#{attempt}"
    before, state = f"{number:>8}  {moment(at)}  ", Styled(stands)
    after = printable(f"{'':{_STATE - len(stands)}}{said:<4} {schedule}")
    if is_terminal():
        after = shortened_to(after, window() - len(before) - len(state.text))
    return f"{before}{state.drawn()}{after}"


def print_changes(looks: Iterable[Sequence[T]], line_of: Callable[[T], str], *, json: bool) -> None:
    """Print a line for each change; as JSON each look at which something has changed is one."""
    for moved in looks:
        lines = [json_line(moved)] if json and moved else [] if json else map(line_of, moved)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    known = [(name, value) for name, value in pairs if value is not None]
    width = max(len(name) for name, _ in known) + _GAP
    for name, value in known:
        lines = printable_lines(_written(value)).split("\n")
        if is_terminal():
            lines = [part for line in lines for part in _folded(line, window() - width)]
        first = value.drawn() if isinstance(value, Styled) else lines[0]
        sys.stdout.write(
            f"{in_colour(name, 'bold')}{'':{width - len(name)}}{first}".rstrip() + "\n"
        )
        sys.stdout.writelines(f"{'':{width}}{line}".rstrip() + "\n" for line in lines[1:])


def printable_lines(shown: str) -> str:
    return printable(shown.replace("\r\n", "\n"), keep="\t\n")


def _written(value: object) -> str:
    return "-" if value is None else moment(value) if isinstance(value, datetime) else str(value)


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
