"""The two signals: the first asks, the second insists."""

import asyncio
import logging
import signal

import attrs

from cronhare.application.logs import say

log = logging.getLogger(__name__)


@attrs.frozen
class Stopping:
    """What SIGINT and SIGTERM have said so far."""

    asked: asyncio.Event = attrs.field(factory=asyncio.Event)
    hurry: asyncio.Event = attrs.field(factory=asyncio.Event)

    def listen(self) -> None:
        """Take SIGINT and SIGTERM for this event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            say(log, logging.WARNING, "shutdown.hurry", f"{number.name} again, ending what runs")
            self.hurry.set()
            return
        text = f"{number.name} received, shutting down gracefully..."
        say(log, logging.WARNING, "shutdown", text)
        self.asked.set()
