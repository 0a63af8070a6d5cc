"""How often somebody may try a token that is none, before the next try has to wait.

Nobody can guess a token: this keeps the ledger idle, and slows down a program that has a wrong one.
Whoever has a right one is not kept waiting by those who try from the same address, a proxy's say:
one that was valid of late is known here, and another is looked for among all that are valid.
"""

from collections import OrderedDict, deque
from typing import Final

import attrs

#: Wrong tries in a window of so many seconds: from one address, and from all together.
WINDOW = 60.0
MOST_FROM_ONE: Final = 10
MOST_FROM_ALL: Final = 100

#: Addresses that are remembered, and tokens that were valid of late.
MOST_REMEMBERED: Final = 1_000


@attrs.define
class Tries:
    """Counts wrong tries; *now* is of a clock that only goes forward, in seconds."""

    _of_one: OrderedDict[str, deque[float]] = attrs.field(factory=OrderedDict, init=False)
    _of_all: deque[float] = attrs.field(init=False, factory=lambda: deque(maxlen=MOST_FROM_ALL))
    _valid: OrderedDict[str, None] = attrs.field(factory=OrderedDict, init=False)

    def wait(self, address: str, digest: str, *, now: float) -> float:
        """Say how many seconds it takes until the next try; 0 if it may be made now."""
        if digest in self._valid:
            return 0.0
        mine = _left(self._of_one.get(address), MOST_FROM_ONE, now)
        return max(mine, _left(self._of_all, MOST_FROM_ALL, now))

    def was_wrong(self, address: str, digest: str, *, now: float) -> None:
        """Count a try."""
        self._valid.pop(digest, None)
        tries = self._of_one.pop(address, None) or deque(maxlen=MOST_FROM_ONE)
        tries.append(now)
        self._of_all.append(now)
        self._of_one[address] = tries
        if len(self._of_one) > MOST_REMEMBERED:
            self._of_one.popitem(last=False)

    def was_valid(self, digest: str) -> None:
        """Note a token that is one."""
        self._valid.pop(digest, None)
        self._valid[digest] = None
        if len(self._valid) > MOST_REMEMBERED:
            self._valid.popitem(last=False)


def _left(tries: deque[float] | None, most: int, now: float) -> float:
    """Say how long it takes until fewer than *most* tries are within the window."""
    if tries is None or len(tries) < most:
        return 0.0
    return max(0.0, tries[0] + WINDOW - now)
