"""The pages of rows that one round of the reconciler works through."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from cronhare.domain.execution import Execution

#: So many rows are one page, and so many pages of a kind are worked through in one round.
PAGE, PAGES = 1_000, 10

T = TypeVar("T")


def pages(find: Callable[[], Sequence[T]], *, limit: int) -> Iterator[Sequence[T]]:
    """Find page after page, until one has fewer rows than *limit*, or the round is over."""
    for _ in range(PAGES):
        found = find()
        yield found
        if len(found) < limit:
            return


def without_broken(found: Sequence[Execution]) -> Sequence[Execution]:
    """Leave out broken rows: the ledger has quarantined them, and logged it."""
    return [execution for execution in found if execution.problem is None]
