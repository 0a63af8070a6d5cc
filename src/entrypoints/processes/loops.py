"""A thread that calls a function again and again until it is stopped."""

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

#: Seconds before the next try after a failure, doubled each time. What is due when a server comes
#: back is that late at most; a fault of ours is a stack in the log each time.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_AFTER_FAULT = 0.5, 3.0, 10.0

_LOOK = 0.01


class Loop:
    """Calls *work*, which answers how many seconds to rest, or None to end; survives its errors."""

    def __init__(
        self,
        name: str,
        work: Callable[[], float | None],
        *,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        """*name* is the thread's; *at_end* is called once it has been stopped."""
        self.name = name
        self._work = work
        self._at_end = at_end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def stop(self, *, seconds: float) -> None:
        """Begin no other round, and wait at most so long for the one under way.

        A round that takes longer is logged, and ends with the process: the thread is a daemon.
        """
        self._stopped.set()
        await wait_at_most(seconds, f"the last round of the {self.name}", self._over())

    async def _over(self) -> None:
        """Poll: the event loop's threads, one of which could join it, may all wait for a server."""
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
        self._at_end()
