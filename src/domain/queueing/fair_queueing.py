"""Weighted fair queueing: which of several queues is served next, so that none starves."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from .served_queues import DEFAULT_WEIGHT, WEIGHTS

#: The cost of an item of a queue of weight 1; that of any other weight is a whole number too.
_COST: Final = math.lcm(*WEIGHTS)


class FairQueueing:
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996), each item counted as one.

    While several queues have items, their shares are as their weights, and each is served at the
    latest once the others have had theirs. A queue that was empty has saved nothing up: it comes
    next, and then has its share.

    >>> fair = FairQueueing({"reports": 3})
    >>> served = []
    >>> for _ in range(8):
    ...     served.append(fair.order(["mail", "reports"])[0])
    ...     fair.serve(served[-1])
    >>> served.count("reports"), served.count("mail")
    (6, 2)
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        """*weights* are those of queues of another weight than 1."""
        self._costs = {queue: _COST // weight for queue, weight in weights.items()}
        self._usual = _COST // DEFAULT_WEIGHT
        self._virtual_time = 0
        self._finished: dict[str, int] = {}  # the virtual times at which their last items end

    def order(self, queues: Iterable[str]) -> list[str]:
        """Put queues that have items in the order in which they are served next.

        Of equals the one comes first that was served less of late, then the one named first.
        """
        return sorted(queues, key=self._turn)

    def next(self, queues: Iterable[str]) -> str:
        """Choose among queues that have items, at least one, the one that is served next."""
        return min(queues, key=self._turn)

    def serve(self, queue: str) -> None:
        """Count an item of a queue."""
        start = max(self._virtual_time, self._finished.get(queue, 0))
        self._virtual_time = start
        self._finished[queue] = start + self._costs.get(queue, self._usual)

    def _turn(self, queue: str) -> tuple[int, int]:
        finished = self._finished.get(queue, 0)
        return max(self._virtual_time, finished), finished
