"""Ends a process whose shutdown takes too long.

Every wait of a shutdown has a bound. This one holds where they do not add up, or one is missing: in
a thread that waits for a server, or in the interpreter's own wait for threads.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from cronhare.application.logs import say
from cronhare.domain.shutdown_times import ENDING

log = logging.getLogger(__name__)

#: Seconds for threads that are left once everything is closed.
LEAVING: Final = 6.0
#: Seconds that the last log line may take: its reader may stand still as well.
_LAST_LINE = 1.0
#: As of a command that could not reach a server: it is why a shutdown does not end.
_STATUS = 3


class ForcedExit:
    """Ends the process the grace and `ENDING` after the first signal.

    The second signal takes the grace away, the third one ends it at once.
    """

    def __init__(self, *, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        """*grace* is in seconds. Nothing happens before `listen`."""
        self.allow(grace)
        self._clock = clock
        self._ends = SimpleQueue[float]()
        self._signals = 0
        self._waits_for = "the tasks"

    def allow(self, grace: float) -> None:
        """Change the grace, for a shutdown that has not begun."""
        self._limits = (grace + ENDING, ENDING, 0.0)

    def listen(self) -> None:
        """Wait for the first signal, in a thread that costs nothing until then."""
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
        """Note what the shutdown is waiting for, for the last log line."""
        self._waits_for = what

    def wait(self) -> None:
        """Return when the time is over: the soonest of all ends."""
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
