"""Whether a process can do its work: each server that it needs was proven of late."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import BrokerUnavailable

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
        """*monotonic* gives seconds."""
        self._monotonic = monotonic
        self._looks: dict[str, Look] = {}
        self._proven_at: dict[str, float] = {}
        self._looked_at = -math.inf
        self._stopping: Callable[[], bool] = lambda: False

    def need(self, server: str, look: Look) -> None:
        """From now on this process is not ready without *server*."""
        self._looks[server] = look

    def ends_with(self, stopping: Callable[[], bool]) -> None:
        """Once *stopping* is true, the process is not ready any more."""
        self._stopping = stopping

    def round(self) -> float:
        """Look at each server once; answers how many seconds to rest."""
        self._looked_at = self._monotonic()
        for server, look in list(self._looks.items()):
            with suppress(LedgerUnavailable, BrokerUnavailable):
                if look():
                    self._proven_at[server] = self._monotonic()
        return LOOK_AGAIN if self.faults() else LOOK_EVERY

    def refresh(self) -> None:
        """Look, unless somebody has just done so."""
        rest = LOOK_AGAIN if self.faults() else LOOK_EVERY
        if self._monotonic() - self._looked_at >= rest:
            self.round()

    def faults(self) -> Sequence[str]:
        """Say what keeps the process from being ready."""
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
        """Say of each server whether it was proven of late."""
        since = self._monotonic() - GOOD_FOR
        return {server: self._proven_at.get(server, -math.inf) >= since for server in self._looks}
