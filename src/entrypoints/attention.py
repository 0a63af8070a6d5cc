"""The signals that end nothing: SIGHUP asks to reload, SIGUSR1 to tell the state."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from types import FrameType

log = logging.getLogger(__name__)

ASKING = (signal.SIGHUP, signal.SIGUSR1)

Answer = Callable[[], Awaitable[None]]


class Attention:
    """Hears these signals from the first moment on, and answers them once there is a loop."""

    def __init__(self) -> None:
        """What the process was started to ignore, as by nohup, is ignored."""
        self._heard: list[int] = []
        self._ignored = [n for n in ASKING if signal.getsignal(n) is signal.SIG_IGN]
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        for number in ASKING:
            if number not in self._ignored:
                signal.signal(number, self._note)

    def listen(self, answers: Mapping[signal.Signals, Answer]) -> None:
        """Answer from now on, in this event loop, one after the other; and what came earlier."""
        loop = asyncio.get_running_loop()
        for number, answer in answers.items():
            if number not in self._ignored:
                loop.add_signal_handler(number, self._begin, answer)
        for heard in dict.fromkeys(self._heard):
            self._begin(answers[signal.Signals(heard)])

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._heard.append(number)

    def _begin(self, answer: Answer) -> None:
        task = asyncio.create_task(self._answer(answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, answer: Answer) -> None:
        async with self._turn:
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
