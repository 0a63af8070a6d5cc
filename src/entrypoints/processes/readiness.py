"""What a process waits for before it begins: its servers, and a ledger whose schema it knows."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from sqlalchemy import Engine

from cronhare.adapters.sql import check_schema
from cronhare.application.logs import say
from cronhare.application.outages import Outage
from cronhare.domain.retries.backoff import Waits
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.ledger import LedgerNewer, LedgerOutdated, LedgerUnavailable

from ..signals.shutdown import Shutdown
from .loops import FIRST_PAUSE, LONGEST_PAUSE

log = logging.getLogger(__name__)


async def answered(server: str, ask: Callable[[], Awaitable[None]], *, shutdown: Shutdown) -> bool:
    """Ask a server until it answers, however long it is away; False if somebody wants us to stop.

    Raises:
        LedgerOutdated: no pause mends that.
    """
    outage = Outage(log, f"The {server} can be used", back=f"{server}.back")
    pauses = Waits(FIRST_PAUSE, LONGEST_PAUSE)
    while not shutdown.requested.is_set():
        try:
            if not await _asked(ask, shutdown):
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


async def _asked(ask: Callable[[], Awaitable[None]], shutdown: Shutdown) -> bool:
    """Ask once; False if somebody wants us to stop before there is an answer."""
    asking = asyncio.ensure_future(ask())
    stop = asyncio.create_task(shutdown.requested.wait())
    try:
        await asyncio.wait({asking, stop}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            await asking
        return asking.done()
    finally:
        stop.cancel()
        asking.cancel()


async def ledger_is_ready(engine: Engine, shutdown: Shutdown) -> bool:
    """Wait for the ledger; False if somebody wants us to stop.

    Raises:
        LedgerOutdated: there is no schema, or one that `cronhare db upgrade` has to mend.
    """
    return await answered("ledger", partial(asyncio.to_thread, _check, engine), shutdown=shutdown)


def _check(engine: Engine) -> None:
    """Take a newer schema for fit: a release removes nothing that the one before it uses.

    A process that dies during an upgrade has to come back.
    """
    try:
        check_schema(engine)
    except LedgerNewer as error:
        text = f"{error}. Until then this one goes on with it"
        say(log, logging.WARNING, "schema.newer", text)
