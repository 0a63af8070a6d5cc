"""A thread that does one thing again and again until it is told to stop."""

import asyncio
import logging
import threading
from collections.abc import Callable

from cronhare.application.outages import Outage
from cronhare.domain.retries.backoff import Waits
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.ledger import LedgerUnavailable

from .bounded_wait import wait_at_most

log = logging.getLogger(__name__)

#: After a failure the next try comes after so many seconds, doubled each time. Once a server is
#: back, what is due is that late at most; a fault of ours is a stack in the log each time.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_AFTER_FAULT = 0.5, 3.0, 10.0

_LOOK = 0.01


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

    async def stop(self, *, seconds: float) -> None:
        """Let the round under way end, and no other begin; it is told if it does not in its time.

        *seconds* is how long it may take. The thread is a daemon: nobody has to wait for it.
        """
        self._stopped.set()
        await wait_at_most(seconds, f"the last round of the {self.name}", self._over())

    async def _over(self) -> None:
        """Look again and again: a thread that waited for it could have to wait itself.

        While a server is silent, those of the event loop may all be taken.
        """
        while self._thread.is_alive():  # noqa: ASYNC110 - it is a thread's end
            await asyncio.sleep(_LOOK)

    def _run(self) -> None:
        outage = Outage(log, f"The {self.name} works again")
        pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopped.is_set():
            try:
                rest = self._work()
                outage.is_over()
                if rest is None:
                    return
                pauses.reset()
            except (LedgerUnavailable, BrokerUnavailable) as error:
                text = f"The {self.name} tries again"
                outage.lasts(logging.ERROR, "server.unavailable", text, error)
                rest = pauses.next()
            except Exception:
                rest = pauses.next(longest=LONGEST_AFTER_FAULT)
                text = f"The {self.name} met a fault of ours and goes on in {rest:.1f} s"
                log.exception("%s", text, extra={"action": "loop.fault"})
            self._stopped.wait(rest)
