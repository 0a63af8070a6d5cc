"""Whether the loops of a process turn: known to the process itself, without asking a server."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

#: Seconds that a turn may be under way. Servers are waited for in it, each answer for half a minute
#: at most, and a busy minute is dispatched in it: a process is not to be ended for those.
LONGEST_TURN: Final = 300.0

#: Seconds by which a turn may begin late: the machine is busy, or its processor is throttled.
MARGIN: Final = 60.0


class Turn:
    """The turns of one loop: each begins in time, and ends in time."""

    def __init__(
        self,
        name: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """*name* is the loop's; both clocks give seconds."""
        self.name = name
        self.began_at: float | None = None
        self._monotonic = monotonic
        self._wall = wall
        self._next_by = math.inf

    def begin(self) -> None:
        """A turn begins."""
        self.began_at = self._wall()
        self._next_by = self._monotonic() + LONGEST_TURN

    def rest(self, seconds: float) -> None:
        """It has ended; the next begins after so many seconds."""
        self._next_by = self._monotonic() + seconds + MARGIN

    def end(self) -> None:
        """No other turn is to come."""
        self._next_by = math.inf

    @property
    def late_by(self) -> float:
        """Seconds since something should have happened; negative while all is well."""
        return self._monotonic() - self._next_by


class Turns:
    """The loops of a process."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []

    def watch(self, turns: Iterable[Turn]) -> None:
        """Watch these loops as well."""
        self._turns.extend(turns)

    def faults(self) -> Sequence[str]:
        """Name the loops that stand still."""
        return [
            f"{turn.name} stands still: its next step is {turn.late_by:.0f} s late"
            for turn in self._turns
            if turn.late_by > 0
        ]

    def last(self) -> Mapping[str, float]:
        """Say when the last turn of each loop began, in seconds since 1970."""
        return {turn.name: turn.began_at for turn in self._turns if turn.began_at is not None}
