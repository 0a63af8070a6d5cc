"""Asking the ledger until it answers: its calls can be repeated, its silence means nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from .logs import say

log = logging.getLogger(__name__)

#: While the ledger is away, ask again after so many seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

T = TypeVar("T")


class Draining(Exception):
    """The worker shuts down: what has not begun is not begun any more."""


class Insistence:
    """How long a worker asks: for ever while it works, within bounds once it shuts down."""

    def __init__(self, clock: ClockPort, *, patience: timedelta) -> None:
        """*patience* is the length of a lease: after it the ledger lets others decide."""
        self._clock = clock
        self._patience = patience.total_seconds()
        self._draining = False

    def drain(self) -> None:
        """From now on begin nothing, and finish within the patience."""
        self._draining = True

    async def to_begin(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask for something that has not begun yet.

        Raises:
            Draining: the worker shuts down. The ledger may have heard a question that it did not
                answer.
        """
        pause = FIRST_PAUSE
        while not self._draining:
            try:
                return await ask()
            except LedgerUnavailable as error:
                pause = await _rest(pause, error)
        raise Draining

    async def to_finish(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Tell the end of something that was begun.

        Raises:
            LedgerUnavailable: the worker shuts down, and the ledger was away for a whole lease.
        """
        began, pause = self._clock.monotonic(), FIRST_PAUSE
        while True:
            try:
                return await ask()
            except LedgerUnavailable as error:
                if self._draining and self._clock.monotonic() - began >= self._patience:
                    raise
                pause = await _rest(pause, error)


async def _rest(pause: float, error: LedgerUnavailable) -> float:
    """Rest for *pause* seconds, and give the next pause."""
    text = f"The ledger does not answer, asking again in {pause:.1f} s: {error}"
    say(log, logging.ERROR, "ledger.unavailable", text)
    await asyncio.sleep(pause)
    return min(pause * 2, LONGEST_PAUSE)
