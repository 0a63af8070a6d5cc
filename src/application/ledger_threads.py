"""Questions to the ledger from an event loop: each in a thread, as the answer is waited for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class LedgerThreads:
    """Asks the ledger, or its clock, in a thread of an *executor*; the loop goes on meanwhile."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def __call__(self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, question)
