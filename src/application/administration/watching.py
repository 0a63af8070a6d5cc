"""Looking at a list again and again, to tell what is new in it or has moved on."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

#: Seconds between two looks.
WATCH_EVERY: Final = 1.0


class Numbered(Protocol):
    """A row that is known again by its number."""

    @property
    def id(self) -> int:
        """The number."""
        ...


Row = TypeVar("Row", bound=Numbered)


def watch(
    look: Callable[[], Sequence[Row]],
    *,
    stand: Callable[[Row], object],
    pause: Callable[[float], None],
) -> Iterator[Sequence[Row]]:
    """Yield what a *look*, newest first, finds, oldest first; then what is new or has moved on.

    A row has moved on when its *stand* is another. It never ends; *pause* waits for so many
    seconds.
    """
    seen: dict[int, object] = {}
    while True:
        found = look()
        moved = [row for row in found if row.id not in seen or seen[row.id] != stand(row)]
        seen = {row.id: stand(row) for row in found}
        yield moved[::-1]
        pause(WATCH_EVERY)
