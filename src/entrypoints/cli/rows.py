"""Lists: one line a row, whatever the window; times beside now on a terminal, in full in a pipe.

What a window has no room for is left out or shortened, and a last line says so: `show` and `--json`
have all of it. In a pipe nothing is.
"""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from cronhare.domain.texts.moments import say_beside, say_moment
from cronhare.domain.texts.words import listed

from .output import Styled, console, print_json, print_plainly, text

if TYPE_CHECKING:
    from rich.text import Text

T = TypeVar("T")

#: A list's columns, by their headings: an attribute of what a row shows, or made of it.
Columns: TypeAlias = Mapping[str, str | Callable[[T], object]]

#: Between two columns.
GAP: Final = 2
#: Characters that are left of a text at least that may be shortened.
LEAST_WIDTH: Final = 12


def print_rows(
    found: Sequence[T],
    columns: Columns[T],
    *,
    json: bool,
    empty: str,
    spare: Sequence[str] = (),
    elastic: Sequence[str] = (),
) -> None:
    """Print views as JSON, or as a list.

    Where room lacks, texts in *elastic* columns are shortened first, then the *spare* ones are left
    out in their order, and then whichever is widest is shortened.
    """
    if json:
        print_json(found)
        return
    if not found:
        print(empty)  # noqa: T201 - it is a CLI
        return
    of_columns = [attrgetter(of) if isinstance(of, str) else of for of in columns.values()]
    now = datetime.now(UTC) if _is_terminal() else None
    cells = [[of(each) for of in of_columns] for each in found]
    if now is None and print_plainly(
        [[*columns], *([_plain(one) for one in row] for row in cells)]
    ):
        return
    grid = Grid([*columns], [[_cell(one, now) for one in row] for row in cells])
    if now is not None:
        grid.fit(console().width, spare=spare, elastic=elastic)
    grid.print()


class Grid:
    """Cells, and how wide each column is; a column that is left out has no width."""

    def __init__(self, headings: Sequence[str], rows: "Sequence[Sequence[Text]]") -> None:
        """Begin as wide as all of it is."""
        heads = [text(name, style="bold") for name in headings]
        self._headings = headings
        self._lines = [heads, *rows]
        self.widths: list[int | None] = [
            max(line[column].cell_len for line in self._lines) for column in range(len(headings))
        ]
        self._whole = True

    @property
    def left_out(self) -> Sequence[str]:
        """Name the columns that are left out."""
        return [
            name for name, width in zip(self._headings, self.widths, strict=True) if width is None
        ]

    @property
    def width(self) -> int:
        """Say how wide a line is."""
        shown = [width for width in self.widths if width is not None]
        return sum(shown) + GAP * (len(shown) - 1)

    def fit(self, width: int, *, spare: Sequence[str], elastic: Collection[str]) -> None:
        """Make lines no wider than a window, as `print_rows` says."""
        self._shorten(width, [self._headings.index(name) for name in elastic])
        for name in spare:
            if self.width > width:
                self.widths[self._headings.index(name)] = None
        self._shorten(width, range(len(self._headings)))
        self._grow(width, [self._headings.index(name) for name in elastic])

    def print(self) -> None:
        """Print the lines."""
        out = console()
        for line in self._lines:
            out.print(self._joined(line), soft_wrap=True)
        if self.left_out:
            missing = f"Without {listed(self.left_out)}, for want of room"
        elif not self._whole:
            missing = "Shortened, for want of room"
        else:
            return
        out.print(text(f"{missing}: --json has all.", style="bright_black"), soft_wrap=True)

    def _shorten(self, width: int, columns: Collection[int]) -> None:
        while (over := self.width - width) > 0:
            wide = {
                column: wide
                for column in columns
                if (wide := self.widths[column] or 0) > self._least(column)
            }
            if not wide:
                return
            [widest, *_] = sorted(wide, key=wide.__getitem__, reverse=True)
            second = max((each for column, each in wide.items() if column != widest), default=0)
            less = max(min(over, wide[widest] - second), 1)
            self.widths[widest] = max(wide[widest] - less, self._least(widest))

    def _grow(self, width: int, columns: Collection[int]) -> None:
        """Give room back that a column left which was taken out afterwards."""
        for column in columns:
            if (shown := self.widths[column]) is not None:
                natural = max(line[column].cell_len for line in self._lines)
                self.widths[column] = min(natural, shown + max(width - self.width, 0))

    def _least(self, column: int) -> int:
        return max(LEAST_WIDTH, len(self._headings[column]))

    def _joined(self, line: "Sequence[Text]") -> "Text":
        shown = [
            self._fitted(cell, width)
            for cell, width in zip(line, self.widths, strict=True)
            if width is not None
        ]
        joined = text(" " * GAP).join(shown)
        joined.rstrip()
        return joined

    def _fitted(self, cell: "Text", width: int) -> "Text":
        if cell.cell_len <= width:
            fitted = cell.copy()
            fitted.pad_right(width - cell.cell_len)
            return fitted
        self._whole = False
        fitted = cell.copy()
        fitted.truncate(width, overflow="ellipsis", pad=True)
        return fitted


def _cell(value: object, now: datetime | None) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - whoever prints JSON does without

    match value:
        case Text():
            return value
        case Styled():
            return value.drawn()
        case datetime() if now is not None:
            return text(say_beside(value, now))
        case _:
            return text(_plain(value))


def _plain(value: object) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return say_moment(value)
        case _:
            return str(value)


def _is_terminal() -> bool:
    return sys.stdout.isatty()
