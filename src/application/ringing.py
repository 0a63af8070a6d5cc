"""Publishing one batch while the next one is being claimed (design.md, section 4.4)."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from datetime import datetime
from types import TracebackType
from typing import Self

from cronhare.domain.execution import Execution

from .doorbell import Doorbell, Rung


class Ringing:
    """The publishing side of one tick. One batch is under way at a time, so memory stays flat.

    Leaving it waits for the last one. What was claimed and could not be published is the
    reconciler's.
    """

    def __init__(self, doorbell: Doorbell, executor: Executor, *, now: datetime) -> None:
        """*executor* lends the thread that waits for the broker."""
        self.published = 0
        self._doorbell = doorbell
        self._executor = executor
        self._now = now
        self._under_way: Future[Rung] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for what is under way; its error comes after one that was met meanwhile."""
        rung, self._under_way = self._under_way, None
        self._note(rung)

    def ring(self, batch: Sequence[Execution]) -> None:
        """Begin to publish *batch*, once the one before it is through.

        Raises what came of the one before; *batch* is published all the same.
        """
        before, self._under_way = self._under_way, None
        try:
            self._note(before)
        finally:
            if batch:
                self._under_way = self._executor.submit(self._doorbell.ring, batch, now=self._now)

    def _note(self, rung: Future[Rung] | None) -> None:
        if rung is not None:
            self.published += rung.result().published
