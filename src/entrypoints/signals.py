"""How a process that lives long answers signals: a first one that ends it, a second, a hangup."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Final

import attrs

from cronhare.application.logs import say
from cronhare.domain.nodes import ENDING

from .early_signals import PENDING, is_ignored, note_requests, silence_full_wakeup

log = logging.getLogger(__name__)

#: Seconds for threads that are left once everything is closed.
LEAVING: Final = 6.0
#: Seconds that the last log line may take: its reader may stand still as well.
_LAST_LINE = 1.0
#: As of a command that could not reach a server: it is why a shutdown does not end.
_STATUS = 3


class ForcedExit:
    """Ends the process the grace and `ENDING` after the first signal.

    The second signal takes the grace away, the third one ends it at once. Every wait of a shutdown
    has a bound; this holds, on a thread, where they do not add up or one is missing.
    """

    def __init__(self, *, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        """*grace* is in seconds. Nothing happens before `listen`."""
        self.allow(grace)
        self._clock = clock
        self._ends = SimpleQueue[float]()
        self._signals = 0
        self._waits_for = "the tasks"

    def allow(self, grace: float) -> None:
        self._limits = (grace + ENDING, ENDING, 0.0)

    def listen(self) -> None:
        threading.Thread(target=self._run, name="forced exit", daemon=True).start()

    def signalled(self) -> float:
        """Note a signal; answers after how many seconds the process is gone for certain.

        Safe in a signal handler, whatever that interrupts.
        """
        limit = self._limits[min(self._signals, len(self._limits) - 1)]
        self._signals += 1
        self._ends.put(self._clock() + limit)  # reentrant, as a lock would not be
        return limit + _LAST_LINE

    def leaving(self) -> None:
        """Give the threads that are left `LEAVING` seconds: everything else has ended."""
        self.waits_for("threads that still wait for a server")
        self._ends.put(self._clock() + LEAVING)

    def waits_for(self, what: str) -> None:
        self._waits_for = what

    def wait(self) -> None:
        over_at = self._ends.get()
        while (left := over_at - self._clock()) > 0:
            try:
                over_at = min(over_at, self._ends.get(timeout=left))
            except Empty:
                return

    def _run(self) -> None:
        self.wait()
        line = threading.Thread(target=self._say, daemon=True)
        line.start()
        line.join(_LAST_LINE)
        os._exit(_STATUS)

    def _say(self) -> None:
        ours = {threading.main_thread(), threading.current_thread()}
        names = sorted(each.name for each in threading.enumerate() if each not in ours)
        text = (
            f"Ended without waiting any longer for {self._waits_for}; still there: "
            f"{', '.join(names)}. What was not written down is found by the lease"
        )
        say(log, logging.ERROR, "shutdown.forced", text)


#: Seconds from the forced exit to the kernel's alarm, should that one fail.
ALARM = 5


@attrs.frozen
class Shutdown:
    """What SIGINT and SIGTERM have requested so far."""

    forced_exit: ForcedExit
    requested: asyncio.Event = attrs.field(factory=asyncio.Event)
    force: asyncio.Event = attrs.field(factory=asyncio.Event)

    def listen(self) -> None:
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


#: Seconds after which an answer that does not come is logged: a file system may hang.
LONGEST_ANSWER: Final = 60.0

Answer = Callable[[], Awaitable[None]]


class SignalHandlers:
    """Answers these signals once there is an event loop, and those that `pending` noted before.

    Of each signal one answer is under way, and at most one waits for it, for all that came since.
    One that hangs keeps no other signal waiting.
    """

    def __init__(self, *, timeout: float = LONGEST_ANSWER) -> None:
        """An answer that takes longer than *timeout*, in seconds, is logged."""
        self._timeout = timeout
        self._turns = defaultdict[signal.Signals, asyncio.Lock](asyncio.Lock)
        self._waiting: dict[signal.Signals, asyncio.Task[None]] = {}
        self._answering: dict[signal.Signals, asyncio.Task[None]] = {}
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
        if number not in self._waiting:
            self._waiting[number] = asyncio.create_task(self._answer(number, answer))

    async def _answer(self, number: signal.Signals, answer: Answer) -> None:
        async with self._turns[number]:
            self._answering[number] = self._waiting.pop(number)
            late = asyncio.get_running_loop().call_later(self._timeout, self._say_late, number)
            try:
                await answer()
            except Exception:
                text = "A signal met a fault of ours; all goes on as before"
                log.exception("%s", text, extra={"action": "fault"})
            finally:
                late.cancel()

    def _say_late(self, number: signal.Signals) -> None:
        text = f"No answer to {number.name} within {self._timeout:g} s"
        why = "does a file system hang, or is the ledger away? The next one waits for it"
        say(log, logging.WARNING, "signal.late", f"{text}: {why}")


def on_a_terminal() -> bool:
    """Whether a terminal controls this process, which gets a SIGHUP when that is gone."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
