"""Pages of what is chosen first, taken then: what others hold hides nothing that is behind it."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: So many pages are looked at in one look: what is behind as many held rows waits for another one.
MOST_PAGES: Final = 10


def take_past_locked(
    choose: Callable[[int, int], Sequence[int]],
    take: Callable[[Sequence[int]], Sequence[T]],
    *,
    limit: int,
) -> Sequence[T]:
    """Take up to *limit*. *take* gives those of some ids that nobody holds, which are then gone.

    *choose* gives so many ids at the most, without so many that are the first of all.
    """
    taken: list[T] = []
    left = 0  # what was chosen and not to be had comes first again
    for _ in range(MOST_PAGES):
        wanted = limit - len(taken)
        ids = choose(wanted, left)
        free = take(ids) if ids else ()
        taken += free
        left += len(ids) - len(free)
        if len(ids) < wanted or len(taken) == limit:
            break
    return taken
