"""A worker that was asked to drain takes no more, finishes what it has, and waits to be taken back.

Whether it was asked stands in the ledger, and comes back with each report of the heartbeat.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from cronhare.application.logs import say

from ..signals.shutdown import Shutdown
from .bounded_wait import wait_unless

log = logging.getLogger(__name__)


class Draining:
    """Has the worker consume as the ledger wants it."""

    def __init__(
        self,
        *,
        rest: Callable[[], Awaitable[object]],
        resume: Callable[[], Awaitable[object]],
        shutdown: Shutdown,
    ) -> None:
        """Make it in the worker's event loop."""
        self._rest = rest
        self._resume = resume
        self._shutdown = shutdown
        self._loop = asyncio.get_running_loop()
        self._wanted = False
        self._changed = asyncio.Event()

    def told(self, drain: bool) -> None:  # noqa: FBT001 - it is the heartbeat's answer
        """Hear from the heartbeat, in its thread, what is wanted."""
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._note, drain)

    async def follow(self) -> None:
        """Do as is wanted, until a shutdown: that waits for no broker that hangs meanwhile."""
        drained = False
        while not self._shutdown.requested.is_set():
            if self._wanted != drained:
                drained = self._wanted
                change = self._drain() if drained else self._undrain()
                await wait_unless(self._shutdown.requested, change)
                continue
            self._changed.clear()
            await wait_unless(self._shutdown.requested, self._changed.wait())

    async def _drain(self) -> None:
        text = "Draining: no more work is taken, what runs goes on, until `cronhare nodes undrain`"
        say(log, logging.INFO, "node.drain", text)
        await self._rest()

    async def _undrain(self) -> None:
        await self._resume()
        say(log, logging.INFO, "node.undrain", "Drained no longer: work is taken again")

    def _note(self, drain: bool) -> None:  # noqa: FBT001
        if drain != self._wanted:
            self._wanted = drain
            self._changed.set()
