"""Which events a target is told of by itself, and which together."""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from cronhare.domain.lifecycle.digests import MOST_TOGETHER, WINDOW, Turn, decide


class Digests:
    """Remembers what this process told whom within the window; another tells by itself."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], deque[float]] = defaultdict(deque)

    def turns(
        self, target: str, most: int, pending: Mapping[str, int], at: float, places: int
    ) -> Iterator[tuple[str, Turn, int]]:
        """Give the kinds that are told now, how, and at most how many events; within *places*."""
        for kind, waiting in pending.items():
            if places <= 0:
                return
            turn = decide(waiting, lately=self._lately(target, kind, at), most=most)
            if turn is Turn.TOGETHER:
                places -= 1
                yield kind, turn, MOST_TOGETHER
            elif turn is Turn.EACH:
                limit = min(waiting, places)
                places -= limit
                yield kind, turn, limit

    def note(self, target: str, kind: str, at: float, *, count: int) -> None:
        """Note that a target is told of so many events."""
        self._told[target, kind].extend([at] * count)

    def _lately(self, target: str, kind: str, at: float) -> int:
        told = self._told[target, kind]
        while told and told[0] <= at - WINDOW.total_seconds():
            told.popleft()
        return len(told)
