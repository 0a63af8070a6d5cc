"""Handles the signals that end nothing: SIGHUP reloads, SIGUSR1 reports the state."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cronhare.application.logs import say

from .pending import PENDING, is_ignored, note_requests, silence_full_wakeup

log = logging.getLogger(__name__)

#: Seconds after which an answer no longer delays others: a file system may hang.
LONGEST_ANSWER: Final = 60.0

Answer = Callable[[], Awaitable[None]]


class SignalHandlers:
    """Answers these signals once there is an event loop, and those that `pending` noted before."""

    def __init__(self, *, timeout: float = LONGEST_ANSWER) -> None:
        """*timeout*, in seconds, is how long an answer keeps the others waiting."""
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[signal.Signals] = set()
        self._late: set[signal.Signals] = set()
        note_requests()

    def listen(self, answers: Mapping[signal.Signals, Answer]) -> None:
        """Answer in this event loop from now on, one after the other, and what is pending."""
        loop = asyncio.get_running_loop()
        if is_ignored(signal.SIGHUP):
            text = "SIGHUP is ignored, as under nohup: what changes needs a restart"
            say(log, logging.INFO, "signal.ignored", text)
        for number, answer in answers.items():
            if not is_ignored(number):
                loop.add_signal_handler(number, self._begin, number, answer)
        silence_full_wakeup()
        for number in map(signal.Signals, dict.fromkeys(PENDING)):
            self._begin(number, answers[number])
        PENDING.clear()

    def _begin(self, number: signal.Signals, answer: Answer) -> None:
        """Queue a signal for its answer; one answer that has not begun serves both."""
        if number in self._waiting:
            return
        self._waiting.add(number)
        self._keep(asyncio.create_task(self._answer(number, answer)))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: signal.Signals, answer: Answer) -> None:
        async with self._turn:
            self._waiting.discard(number)
            if number in self._late:
                text = f"{number.name} is not heeded: an earlier one has no answer yet"
                say(log, logging.WARNING, "signal.late", text)
                return
            task = asyncio.create_task(self._try(answer))
            self._keep(task)
            done, _ = await asyncio.wait({task}, timeout=self._timeout)
            if not done:
                self._leave_behind(number, task)

    def _leave_behind(self, number: signal.Signals, task: "asyncio.Task[None]") -> None:
        """Go on beside an answer that takes too long: a thread that hangs cannot be stopped."""
        self._late.add(number)
        task.add_done_callback(lambda _: self._late.discard(number))
        text = f"No answer to {number.name} within {self._timeout:g} s"
        why = "does a file system hang, or is the ledger away? It goes on beside all others"
        say(log, logging.WARNING, "signal.late", f"{text}: {why}")

    async def _try(self, answer: Answer) -> None:
        try:
            await answer()
        except Exception:
            text = "A signal met a fault of ours; all goes on as before"
            log.exception("%s", text, extra={"action": "fault"})


def on_a_terminal() -> bool:
    """Whether a terminal controls this process, which gets a SIGHUP when that is gone."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
