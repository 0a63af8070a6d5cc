"""A thread that calls a function again and again until it is stopped; and waits with an end."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from sqlalchemy import Engine

from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.application.logs import say
from cronhare.application.outages import Outage
from cronhare.domain.retries.policy import Waits
from cronhare.ports import LedgerNewer, LedgerOutdated, LedgerUnavailable
from cronhare.ports.broker import BrokerUnavailable

from ..signals import Shutdown
from ..vitals import Turn

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


async def answered(server: str, ask: Callable[[], Awaitable[None]], *, shutdown: Shutdown) -> bool:
    """Ask a server until it answers; False if a shutdown is requested before.

    Raises:
        LedgerOutdated: waiting does not mend that.
    """
    outage = Outage(log, f"The {server} can be used", back=f"{server}.back")
    pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)
    while not shutdown.requested.is_set():
        try:
            if not await wait_unless(shutdown.requested, ask()):
                return False
        except LedgerOutdated:
            raise
        except (LedgerUnavailable, BrokerUnavailable) as error:
            text = f"The {server} cannot be used, asking again"
            outage.lasts(logging.ERROR, f"{server}.unavailable", text, error)
        else:
            outage.is_over()
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(pauses.next()):
                await shutdown.requested.wait()
    return False


async def ledger_is_ready(engine: Engine, shutdown: Shutdown) -> bool:
    """Wait for the ledger; False if a shutdown is requested before.

    Raises:
        LedgerOutdated: its schema needs `cronhare db upgrade`.
    """
    return await answered("ledger", partial(asyncio.to_thread, _check, engine), shutdown=shutdown)


def _check(engine: Engine) -> None:
    """Accept a newer schema: a release removes nothing that the one before it uses.

    A process that dies during an upgrade can then start again.
    """
    try:
        check_schema(engine)
    except LedgerNewer as error:
        text = f"{error}. Until then this one goes on with it"
        say(log, logging.WARNING, "schema.newer", text)


async def wait_at_most(seconds: float, what: str, waiting: Coroutine[Any, Any, object]) -> bool:
    """Wait for *waiting* at most so long; False if it was given up.

    It is then cancelled, and not waited for: that may take as long again.
    """
    task = asyncio.create_task(waiting, name=what)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not done:
        text = f"Not waited for any longer than {seconds:g} s: {what}"
        say(log, logging.WARNING, "shutdown.given-up", text)
        task.add_done_callback(_forget)
        return False
    await task
    return True


async def wait_unless(stop: asyncio.Event, waiting: Awaitable[object]) -> bool:
    """Wait for *waiting* unless *stop* comes first; False if it was given up.

    It is then cancelled, and not waited for: a server that hangs would hold up what comes next.
    """
    task = asyncio.ensure_future(waiting)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        task.cancel()
    if not task.done():
        task.add_done_callback(_forget)
        return False
    await task
    return True


def _forget(task: "asyncio.Future[object]") -> None:
    """Retrieve its exception, or Python would warn that it never was."""
    if not task.cancelled():
        task.exception()
