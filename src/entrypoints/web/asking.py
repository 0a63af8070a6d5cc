"""Asking the ledger from a request, and making long answers: in threads, so many at a time."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from cronhare.application.ledger_threads import LedgerThreads
from cronhare.application.outages import Outage
from cronhare.ports import LedgerUnavailable

from ..container import Container

log = logging.getLogger(__name__)

T = TypeVar("T")

#: So many requests ask the ledger at a time; others wait for them.
AT_A_TIME: Final = 4


class Asker:
    """What every part of the application is made with: the use cases, and a way to ask them."""

    def __init__(self, container: Container, executor: ThreadPoolExecutor) -> None:
        self.container = container
        #: Does what takes long without asking the ledger, too: making an answer.
        self.in_thread = LedgerThreads(executor)
        #: So many open pages are looked at again at a time: whoever else asks finds a thread.
        self.looks = asyncio.Semaphore(AT_A_TIME // 2)
        self._outage = Outage(log, "The ledger can be asked", back="ledger.back")

    async def ask(self, question: Callable[[], T]) -> T:
        """Ask in a thread, so that other requests go on.

        Raises:
            LedgerUnavailable: that is logged as well, once until it is over.
        """
        try:
            answer = await self.in_thread(question)
        except LedgerUnavailable as error:
            text = "The ledger cannot be asked over HTTP"
            self._outage.lasts(logging.ERROR, "ledger.unavailable", text, error)
            raise
        self._outage.is_over()
        return answer
