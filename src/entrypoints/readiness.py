"""What a process waits for before it begins: a ledger whose schema it knows."""

import asyncio
import logging
from contextlib import suppress

from sqlalchemy import Engine

from cronhare.adapters.sql import check_schema
from cronhare.application.logs import say
from cronhare.ports.ledger import LedgerNewer, LedgerOutdated, LedgerUnavailable

from .loops import FIRST_PAUSE, LONGEST_PAUSE
from .stopping import Stopping

log = logging.getLogger(__name__)


async def ledger_is_ready(engine: Engine, stopping: Stopping) -> bool:
    """Wait for the ledger, however long it is away; False if somebody wants us to stop.

    A newer schema is fit for this program, too: a release removes nothing that the one before it
    uses, and a process that dies during an upgrade has to come back.

    Raises:
        LedgerOutdated: there is no schema, or one that `cronhare db upgrade` has to mend.
    """
    pause = FIRST_PAUSE
    while not stopping.asked.is_set():
        try:
            await asyncio.to_thread(check_schema, engine)
        except LedgerNewer as error:
            text = f"{error}. Until then this one goes on with it"
            say(log, logging.WARNING, "schema.newer", text)
            return True
        except LedgerOutdated:
            raise
        except LedgerUnavailable as error:
            text = f"The ledger is not there, asking again in {pause:.1f} s: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
        else:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.asked.wait(), pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    return False
