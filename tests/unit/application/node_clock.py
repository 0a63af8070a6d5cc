"""The clock of a node beside the ledger's."""

from datetime import datetime, timedelta

from tests.frozen_clock import FrozenClock


class NodeClock(FrozenClock):
    """The clock of a worker's machine, which follows another and may be set."""

    def __init__(self, follows: FrozenClock) -> None:
        super().__init__(follows.now())
        self._follows = follows
        self.ahead = timedelta(0)
        self.stood = timedelta(0)

    def now(self) -> datetime:
        return self._follows.now() + self.ahead

    def peek(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return self._follows.monotonic() - self.stood.total_seconds()
