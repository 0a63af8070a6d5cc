"""The ledger as a worker asks it: its stores, the threads for them, and the retries."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import timedelta
from typing import TypeVar

import attrs

from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from .ledger_retry import LedgerRetry

T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False)
class WorkerLedger:
    """What the parts of a worker share.

    *executor* has the threads for the ledger, *locking_executor* those of calls that may wait for
    locks. *lease* is that of the attempts.
    """

    node: str
    attempts: AttemptStorePort
    claims: ClaimStorePort
    clock: ClockPort
    lease: timedelta
    executor: Executor
    locking_executor: Executor
    retry: LedgerRetry = attrs.field(init=False)

    @retry.default
    def _retry(self) -> LedgerRetry:
        return LedgerRetry(self.clock, timeout=self.lease, is_up=self._is_up)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Call what may wait for locks."""
        return await asyncio.get_running_loop().run_in_executor(self.locking_executor, call)

    async def _is_up(self) -> bool:
        try:
            await self.in_thread(self.claims.now)
        except LedgerUnavailable:
            return False
        return True
