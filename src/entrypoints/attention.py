"""The signals that end nothing: SIGHUP asks to reload, SIGUSR1 to tell the state."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from types import FrameType
from typing import Final

from cronhare.application.logs import say

log = logging.getLogger(__name__)

ASKING = (signal.SIGHUP, signal.SIGUSR1)

#: Seconds after which an answer no longer keeps others from theirs: a file system may hang.
LONGEST_ANSWER: Final = 60.0

Answer = Callable[[], Awaitable[None]]


class Attention:
    """Hears these signals from the first moment on, and answers them once there is a loop."""

    def __init__(self, *, patience: float = LONGEST_ANSWER) -> None:
        """What the process was started to ignore, as by nohup, is ignored.

        *patience*, in seconds, is how long an answer keeps the others waiting.
        """
        self._patience = patience
        self._heard: list[int] = []
        self._ignored = [n for n in ASKING if signal.getsignal(n) is signal.SIG_IGN]
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: set[signal.Signals] = set()
        for number in ASKING:
            if number not in self._ignored:
                signal.signal(number, self._note)

    def listen(self, answers: Mapping[signal.Signals, Answer]) -> None:
        """Answer from now on, in this event loop, one after the other; and what came earlier."""
        loop = asyncio.get_running_loop()
        for number, answer in answers.items():
            if number not in self._ignored:
                loop.add_signal_handler(number, self._begin, number, answer)
        for heard in dict.fromkeys(self._heard):
            number = signal.Signals(heard)
            self._begin(number, answers[number])

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._heard.append(number)

    def _begin(self, number: signal.Signals, answer: Answer) -> None:
        self._keep(asyncio.create_task(self._answer(number, answer)))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: signal.Signals, answer: Answer) -> None:
        async with self._turn:
            if number in self._late:
                text = f"{number.name} is not heeded: an earlier one has no answer yet"
                say(log, logging.WARNING, "signal.late", text)
                return
            task = asyncio.create_task(self._try(answer))
            self._keep(task)
            done, _ = await asyncio.wait({task}, timeout=self._patience)
            if not done:
                self._let_go(number, task)

    def _let_go(self, number: signal.Signals, task: "asyncio.Task[None]") -> None:
        """Let an answer end when it may: a thread of it that hangs cannot be stopped."""
        self._late.add(number)
        task.add_done_callback(lambda _: self._late.discard(number))
        text = f"No answer to {number.name} within {self._patience:g} s: does a file system hang?"
        say(log, logging.WARNING, "signal.late", f"{text} It goes on beside all others")

    async def _try(self, answer: Answer) -> None:
        try:
            await answer()
        except Exception:
            text = "A signal met a fault of ours; all goes on as before"
            log.exception("%s", text, extra={"action": "fault"})


def on_a_terminal() -> bool:
    """Tell whether a terminal controls this process: when that is gone, it hears SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
