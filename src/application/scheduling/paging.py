"""The pages of rows that one round of the reconciler works through."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from cronhare.domain.execution import Execution, State

from ..logs import say

log = logging.getLogger(__name__)

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
    """Leave out broken rows, and log those that the ledger has quarantined for it."""
    for execution in found:
        if execution.problem is not None and execution.state is State.QUARANTINED:
            text = (
                f"Execution {execution.id} of {execution.schedule_name} is quarantined, its row is "
                f"broken: {execution.problem}. Mend the row, then: cronhare failed replay"
            )
            say(log, logging.ERROR, "execution.broken", text)
    return [execution for execution in found if execution.problem is None]
