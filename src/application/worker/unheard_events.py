"""Counting events that were completed although nobody listened (S3.3 in docs/compatibility.md)."""

import logging
from functools import partial

from cronhare.domain.execution import State
from cronhare.domain.texts.naming import called
from cronhare.ports.attempts import EndRefused, Finish, Superseded
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..logs import say
from .ledger import WorkerLedger

log = logging.getLogger(__name__)


async def count_unheard(
    ledger: WorkerLedger, finish: Finish, recorded: State | EndRefused | Superseded
) -> None:
    """Count the event of an end once that is recorded; what cannot be counted is told, no more."""
    if not finish.ran.unheard or recorded is not State.SUCCEEDED:
        return
    name = called(finish.execution.task, topic=finish.execution.topic)
    try:
        now = await ledger.in_thread(ledger.clock.now)
        await ledger.in_thread(partial(ledger.attempts.count_unheard, name, now=now))
    except (LedgerUnavailable, LedgerRefused) as error:
        text = f"An event of {name} without a listener is not counted: {error}"
        say(log, logging.WARNING, "event.not-counted", text, finish.execution)
