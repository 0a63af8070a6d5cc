"""Finding the one whose values the database refuses, so that its neighbours go on at once.

Such a refusal is no outage: to repeat it changes nothing. So what failed together is tried again in
ever smaller parts, and what fails alone is answered by somebody who knows what becomes of it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from cronhare.domain.planning import Plan, Planned
from cronhare.ports.claims import Planner
from cronhare.ports.ledger import LedgerRefused

Q = TypeVar("Q")
A = TypeVar("A")


def by_halves(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], Sequence[A]],
    *,
    alone: Callable[[Q, LedgerRefused], A],
) -> Sequence[A]:
    """Ask all at once, one transaction; after a refusal, each half by itself.

    *alone* answers for the one that is refused alone. The answers come in the order of *asked*.
    """
    try:
        return ask(asked)
    except LedgerRefused as refusal:
        if len(asked) < 2:  # noqa: PLR2004 - nothing is left to be halved
            return [alone(one, refusal) for one in asked]
    middle = len(asked) // 2
    first = by_halves(asked[:middle], ask, alone=alone)
    return [*first, *by_halves(asked[middle:], ask, alone=alone)]


def in_smaller_pages(limit: int, planner: Planner, take: Callable[[int, Planner], A]) -> A:
    """Take a page of schedules; after a refusal ever fewer of them, which go on meanwhile.

    The one schedule that is refused alone is taken as one that cannot be planned.

    Raises:
        LedgerRefused: not even that can be written.
    """
    noting = _Noting(planner)
    while True:
        try:
            return take(limit, noting)
        except LedgerRefused as refusal:
            if limit > 1:
                limit //= 2
            elif noting.last is not None and noting.last not in noting.refused:
                noting.refused[noting.last] = f"the ledger refuses what follows: {refusal}"
            else:
                raise


class _Noting:
    """A planner that remembers whom it was asked for last.

    Of the schedules in *refused* it only says what is wrong.
    """

    def __init__(self, planner: Planner) -> None:
        self.last: int | None = None
        self.refused: dict[int, str] = {}
        self._planner = planner

    def __call__(self, planned: Planned) -> Plan:
        self.last = planned.schedule.id
        if self.last in self.refused:
            return Plan(problem=self.refused[self.last])
        return self._planner(planned)
