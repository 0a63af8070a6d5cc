"""Taking chosen rows page by page, so that locked ones hide nothing that is behind them."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: So many pages are looked at in one look: what is behind as many locked rows waits for another.
MOST_PAGES: Final = 10


def take_past_locked(
    choose: Callable[[int, int], Sequence[int]],
    take: Callable[[Sequence[int]], Sequence[T]],
    *,
    limit: int,
) -> Sequence[T]:
    """Take up to *limit* rows.

    *choose* gives at most so many ids, after skipping so many. *take* takes those of them that are
    not locked; *choose* does not give these again.
    """
    taken: list[T] = []
    skipped = 0  # what was chosen and locked comes first again
    for _ in range(MOST_PAGES):
        wanted = limit - len(taken)
        ids = choose(wanted, skipped)
        free = take(ids) if ids else ()
        taken += free
        skipped += len(ids) - len(free)
        if len(ids) < wanted or len(taken) == limit:
            break
    return taken
