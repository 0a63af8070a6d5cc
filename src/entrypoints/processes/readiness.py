"""Waits for a server until it answers, and for a ledger until its schema is known."""

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
from .bounded_wait import wait_unless
from .loops import FIRST_PAUSE, LONGEST_PAUSE

log = logging.getLogger(__name__)


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
