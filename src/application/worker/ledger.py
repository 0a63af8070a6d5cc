"""The ledger as a worker asks it: its stores, the threads for them, and the retries."""

from concurrent.futures import Executor
from datetime import timedelta

import attrs

from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable

from ..ledger_threads import LedgerThreads
from .ledger_retry import LedgerRetry


@attrs.frozen(kw_only=True, eq=False)
class WorkerLedger:
    """What the parts of a worker share.

    *executor* has the threads for the ledger, *locking_executor* those of calls that may wait for
    locks: `ask` and `in_thread` call in them. *lease* is that of the attempts.
    """

    node: str
    attempts: AttemptStorePort
    claims: ClaimStorePort
    clock: ClockPort
    lease: timedelta
    executor: Executor
    locking_executor: Executor
    ask: LedgerThreads = attrs.field(init=False)
    in_thread: LedgerThreads = attrs.field(init=False)
    retry: LedgerRetry = attrs.field(init=False)

    @ask.default
    def _ask(self) -> LedgerThreads:
        return LedgerThreads(self.executor)

    @in_thread.default
    def _in_thread(self) -> LedgerThreads:
        return LedgerThreads(self.locking_executor)

    @retry.default
    def _retry(self) -> LedgerRetry:
        return LedgerRetry(self.clock, timeout=self.lease, is_up=self._is_up)

    async def _is_up(self) -> bool:
        try:
            await self.in_thread(self.claims.now)
        except LedgerUnavailable:
            return False
        return True
