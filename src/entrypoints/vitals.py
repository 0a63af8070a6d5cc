"""What a process knows of itself: its loops, its proofs, its numbers."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs

from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import BrokerUnavailable

HEALTH, READINESS, METRICS = "/healthz", "/readyz", "/metrics"

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
        self.name = name
        self.began_at: float | None = None
        self._monotonic = monotonic
        self._wall = wall
        self._next_by = math.inf

    def begin(self) -> None:
        self.began_at = self._wall()
        self._next_by = self._monotonic() + LONGEST_TURN

    def rest(self, seconds: float) -> None:
        self._next_by = self._monotonic() + seconds + MARGIN

    def end(self) -> None:
        self._next_by = math.inf

    @property
    def late_by(self) -> float:
        return self._monotonic() - self._next_by


class Turns:
    """The loops of a process."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []

    def watch(self, turns: Iterable[Turn]) -> None:
        self._turns.extend(turns)

    def faults(self) -> Sequence[str]:
        return [
            f"{turn.name} stands still: its next step is {turn.late_by:.0f} s late"
            for turn in self._turns
            if turn.late_by > 0
        ]

    def last(self) -> Mapping[str, float]:
        return {turn.name: turn.began_at for turn in self._turns if turn.began_at is not None}


#: Seconds between two looks.
LOOK_EVERY: Final = 10.0

#: Until all is proven it looks more often: whoever waits for this process waits for that.
LOOK_AGAIN: Final = 1.0
#: Seconds for which a proof is good: one look may fail, or be slow.
GOOD_FOR: Final = 30.0

#: Answers whether a server serves us now. It may block, and raise that the server is away.
Look = Callable[[], bool]


class Proofs:
    """What was proven, and when. One thread looks; any thread may ask."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._looks: dict[str, Look] = {}
        self._proven_at: dict[str, float] = {}
        self._looked_at = -math.inf
        self._stopping: Callable[[], bool] = lambda: False

    def need(self, server: str, look: Look) -> None:
        self._looks[server] = look

    def ends_with(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping

    def round(self) -> float:
        self._looked_at = self._monotonic()
        for server in list(self._looks):
            with suppress(LedgerUnavailable, BrokerUnavailable):
                self.look(server)
        return LOOK_AGAIN if self.faults() else LOOK_EVERY

    def look(self, server: str) -> bool:
        if is_proven := self._looks[server]():
            self._proven_at[server] = self._monotonic()
        return is_proven

    def refresh(self) -> None:
        """Look, unless somebody has just done so."""
        rest = LOOK_AGAIN if self.faults() else LOOK_EVERY
        if self._monotonic() - self._looked_at >= rest:
            self.round()

    def faults(self) -> Sequence[str]:
        if self._stopping():
            return ["it shuts down"]
        if not self._looks:
            return ["it begins, or waits for its ledger"]
        return [
            f"{server} was not proven within {GOOD_FOR:.0f} s"
            for server, is_up in self.up().items()
            if not is_up
        ]

    def up(self) -> Mapping[str, bool]:
        since = self._monotonic() - GOOD_FOR
        return {server: self._proven_at.get(server, -math.inf) >= since for server in self._looks}


def _unknown() -> None:
    return None


@attrs.define(eq=False, kw_only=True)
class Vitals:
    """What the parts of a process have registered, for those who ask.

    *clock_offset* is how many seconds this host's clock is ahead of the ledger's. *running* and
    *slots* are a worker's. Each may be asked in any thread, and is None where it is not known. Who
    *measures_ledger* has it counted for whoever scrapes; workers, of whom there are many, do not.
    """

    turns: Turns = attrs.field(factory=Turns)
    proofs: Proofs = attrs.field(factory=Proofs)
    clock_offset: Callable[[], float | None] = _unknown
    running: Callable[[], int | None] = _unknown
    slots: Callable[[], int | None] = _unknown
    measures_ledger: bool = False

    def measures_ledger_now(self) -> bool:
        """Whether the ledger is to be counted: never while it is away."""
        return self.measures_ledger and self.proofs.up().get("ledger", False)
