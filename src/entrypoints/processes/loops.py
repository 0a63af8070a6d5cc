"""A thread that calls a function again and again until it is stopped."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from cronhare.application.outages import Outage
from cronhare.domain.retries.backoff import Waits
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.ledger import LedgerUnavailable

from ..probes.turns import Turn
from .bounded_wait import wait_at_most

log = logging.getLogger(__name__)

#: Seconds before the next try after a failure, doubled each time. What is due when a server comes
#: back is that late at most; a fault of ours is a stack in the log each time.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_AFTER_FAULT = 0.5, 3.0, 10.0

#: Seconds after a ring in which the loop hears no other, so that a flood of them costs little.
DEAF: Final = 0.25

_LOOK = 0.01


class Rings(Protocol):
    """What a loop can be rung by; see `FifoListener`."""

    def wait(self, seconds: float) -> bool:
        """Wait for a ring, but not for longer; says whether it rang."""
        ...

    def wake(self) -> None:
        """End the wait."""
        ...


class Loop:
    """Calls *work*, which answers how many seconds to rest, or None to end; survives its errors.

    A ring ends its rest, unless *work* has failed.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], float | None],
        *,
        at_end: Callable[[], object] = lambda: None,
        rings: Rings | None = None,
        on_ring: Callable[[], object] = lambda: None,
    ) -> None:
        """*name* is the thread's; *at_end* is called once it has been stopped.

        *on_ring* is called in the thread, before *work*.
        """
        self.name = name
        self.turn = Turn(name)
        self._work = work
        self._at_end = at_end
        self._rings = rings
        self._on_ring = on_ring
        self._deaf_until = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self.turn.rest(0.0)
        self._thread.start()

    async def stop(self, *, seconds: float) -> None:
        """Begin no other round, and wait at most so long for the one under way.

        A round that takes longer is logged, and ends with the process: the thread is a daemon.
        """
        self._stopped.set()
        if self._rings is not None:
            self._rings.wake()
        await wait_at_most(seconds, f"the last round of the {self.name}", self._over())

    async def _over(self) -> None:
        """Poll: the event loop's threads, one of which could join it, may all wait for a server."""
        while self._thread.is_alive():  # noqa: ASYNC110 - it is a thread's end
            await asyncio.sleep(_LOOK)

    def _run(self) -> None:
        outage = Outage(log, f"The {self.name} works again")
        pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopped.is_set():
            self.turn.begin()
            try:
                rest = self._work()
                outage.is_over()
                if rest is None:
                    self.turn.end()
                    return
                pauses.reset()
                self._rest(rest)
                continue
            except (LedgerUnavailable, BrokerUnavailable) as error:
                text = f"The {self.name} tries again"
                outage.lasts(logging.ERROR, "server.unavailable", text, error)
                rest = pauses.next()
            except Exception:
                rest = pauses.next(longest=LONGEST_AFTER_FAULT)
                text = f"The {self.name} met a fault of ours and goes on in {rest:.1f} s"
                log.exception("%s", text, extra={"action": "loop.fault"})
            self.turn.rest(rest)
            self._stopped.wait(rest)
        self.turn.end()
        self._at_end()

    def _rest(self, seconds: float) -> None:
        """Rest, or until it rings."""
        self.turn.rest(seconds)
        if self._rings is None:
            self._stopped.wait(seconds)
            return
        deaf = min(max(self._deaf_until - time.monotonic(), 0.0), seconds)
        if self._stopped.wait(deaf) or not self._rings.wait(seconds - deaf):
            return
        self._deaf_until = time.monotonic() + DEAF
        self._on_ring()
