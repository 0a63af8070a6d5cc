"""The signals that end: the first requests a shutdown, the second forces it."""

import asyncio
import logging
import signal

import attrs

from cronhare.application.logs import say

from .forced_exit import ForcedExit
from .pending import silence_full_wakeup

log = logging.getLogger(__name__)

#: Seconds from the forced exit to the kernel's alarm, should that one fail.
ALARM = 5


@attrs.frozen
class Shutdown:
    """What SIGINT and SIGTERM have requested so far."""

    forced_exit: ForcedExit
    requested: asyncio.Event = attrs.field(factory=asyncio.Event)
    force: asyncio.Event = attrs.field(factory=asyncio.Event)

    def listen(self) -> None:
        """Handle SIGINT and SIGTERM in this event loop."""
        loop = asyncio.get_running_loop()
        self.forced_exit.listen()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
            # The loop still hears of it through its wake-up descriptor. This is for a loop that
            # hangs, and the kernel's alarm for threads that do not get to run.
            signal.signal(
                number, lambda *_: signal.alarm(int(self.forced_exit.signalled()) + ALARM)
            )
        silence_full_wakeup()

    async def hang_up(self) -> None:
        """Request a shutdown as the terminal is gone; a second hangup forces nothing.

        A shell and the kernel may both send one.
        """
        if not self.requested.is_set():
            signal.alarm(int(self.forced_exit.signalled()) + ALARM)
            self._on_signal(signal.SIGHUP)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            say(log, logging.WARNING, "shutdown.force", f"{number.name} again, ending what runs")
            self.force.set()
            return
        text = f"{number.name} received, shutting down gracefully..."
        say(log, logging.WARNING, "shutdown", text)
        self.requested.set()
