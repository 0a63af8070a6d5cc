"""A thread that does one thing again and again until it is told to stop."""

import logging
import threading
from collections.abc import Callable

from cronhare.application.logs import say
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.ledger import LedgerUnavailable

log = logging.getLogger(__name__)

#: After a failure the next try comes after so many seconds, doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0


class Loop:
    """Calls *work*, which answers how many seconds to rest; survives whatever it raises.

    None means that all is done: the loop ends.
    """

    def __init__(self, name: str, work: Callable[[], float | None]) -> None:
        """*name* is the thread's."""
        self.name = name
        self._work = work
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, *, patience: float) -> bool:
        """Let the round under way end, and no other begin; False if it does not in its time.

        *patience* is in seconds. The thread is a daemon: nobody has to wait for it.
        """
        self._stopped.set()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                rest = self._work()
                if rest is None:
                    return
                pause = FIRST_PAUSE
            except (LedgerUnavailable, BrokerUnavailable) as error:
                text = f"The {self.name} tries again in {pause:.1f} s: {error}"
                say(log, logging.ERROR, "server.unavailable", text)
                rest, pause = pause, min(pause * 2, LONGEST_PAUSE)
            except Exception:
                text = f"The {self.name} met a fault of ours and goes on in {pause:.1f} s"
                log.exception("%s", text, extra={"action": "loop.fault"})
                rest, pause = pause, min(pause * 2, LONGEST_PAUSE)
            self._stopped.wait(rest)
