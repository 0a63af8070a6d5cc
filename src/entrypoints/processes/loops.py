"""The loops of a process, each in its thread, and waits with an end."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from sqlalchemy import Engine

from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.application.logs import say
from cronhare.application.outages import Outage
from cronhare.domain.nodes import CLOSING
from cronhare.domain.retries.policy import Waits
from cronhare.ports import LedgerNewer, LedgerOutdated, LedgerUnavailable
from cronhare.ports.broker import BrokerUnavailable

from ..signals import Shutdown
from ..vitals import Turn, Vitals

log = logging.getLogger(__name__)

#: Seconds before the next try after a failure, doubled each time. What is due when a server comes
#: back is that late at most; a fault of ours is a stack in the log each time.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_AFTER_FAULT = 0.5, 3.0, 10.0

_LOOK = 0.01


class Rings(Protocol):
    """What a loop can be rung by; see `FifoListener`."""

    def wait(self, seconds: float) -> bool:
        """Wait for a ring, but not for longer; says whether it rang."""
        ...

    def wake(self) -> None: ...


class Loop:
    """Calls *work*, which answers how many seconds to rest, or None to end; survives its errors.

    After an error it rests longer each time. A ring ends its rest, unless *work* has failed.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], float | None],
        *,
        ends_within: float = CLOSING,
        at_end: Callable[[], object] = lambda: None,
        rings: Rings | None = None,
        on_ring: Callable[[], object] = lambda: None,
    ) -> None:
        """*ends_within* is how many seconds a stop waits for the round under way.

        *at_end* is called once it has been stopped, *on_ring* before *work*; both in the thread.
        """
        self.name = name
        self.turn = Turn(name)
        self._work = work
        self._ends_within = ends_within
        self._at_end = at_end
        self._rings = rings
        self._on_ring = on_ring
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.turn.rest(0.0)
        self._thread.start()

    async def stop(self) -> None:
        """Begin no other round. One that takes too long is logged, and ends with the process."""
        self._stopped.set()
        if self._rings is not None:
            self._rings.wake()
        await wait_at_most(self._ends_within, f"the last round of the {self.name}", self._over())

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
        self.turn.rest(seconds)
        if self._rings is None:
            self._stopped.wait(seconds)
        elif self._rings.wait(seconds):
            self._on_ring()


def start_all(loops: Iterable[Loop], vitals: Vitals) -> None:
    for loop in loops:
        vitals.turns.watch([loop.turn])
        loop.start()


async def stop_all(loops: Iterable[Loop]) -> None:
    await asyncio.gather(*(loop.stop() for loop in loops))


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
        await wait_unless(shutdown.requested, asyncio.sleep(pauses.next()))
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


async def wait_at_most(seconds: float, what: str, waiting: Awaitable[object]) -> bool:
    """Wait for *waiting* at most so long; False, and a line in the log, if it was given up."""
    if await wait_unless(asyncio.Event(), waiting, seconds=seconds):
        return True
    text = f"Not waited for any longer than {seconds:g} s: {what}"
    say(log, logging.WARNING, "shutdown.given-up", text)
    return False


async def wait_unless(
    stop: asyncio.Event, waiting: Awaitable[object], *, seconds: float | None = None
) -> bool:
    """Wait for *waiting* unless *stop* or the end of so many *seconds* comes first.

    False if it was given up. It is then cancelled, and not waited for: a server that hangs would
    hold up what comes next.
    """
    task, stopping = asyncio.ensure_future(waiting), asyncio.create_task(stop.wait())
    first = asyncio.FIRST_COMPLETED
    try:
        await asyncio.wait({task, stopping}, timeout=seconds, return_when=first)
    finally:
        stopping.cancel()
        task.cancel()
    if not task.done():
        task.add_done_callback(_forget)
        return False
    await task
    return True


def _forget(task: asyncio.Future[object]) -> None:
    """Retrieve its exception, or Python would warn that it never was."""
    if not task.cancelled():
        task.exception()
