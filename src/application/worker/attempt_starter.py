"""The start fence as a worker asks for it: in batches, until the ledger answers."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.catching_up import CatchUp
from cronhare.domain.retries.limits import RetryLimits
from cronhare.ports.attempts import Busy, Deferred, Refused, StartAnswer, StartRequest
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable

from .availability import Availability
from .batching import Batcher
from .leases import LeaseKeeper
from .ledger import WorkerLedger
from .ledger_retry import MOST_FAILURES, CallKind
from .lock_waits import LOCKED_AT_ONCE, lock_wait

#: The ledger's answer, and when it was asked, in monotonic seconds: the lease it gives is as old.
Answered = tuple[Execution | Refused | Deferred, float]


class AttemptStarter:
    """Asks the ledger to start attempts; a lease that it gives is fresh enough to run on."""

    def __init__(
        self,
        ledger: WorkerLedger,
        keeper: LeaseKeeper,
        availability: Availability,
        *,
        limits: Callable[[], RetryLimits],
        linger: float,
    ) -> None:
        """*limits* are those of retries; *linger* is for how many seconds a start waits for others.

        What an outage has held up is known by the *availability*.
        """
        self._ledger = ledger
        self._keeper = keeper
        self._availability = availability
        self._limits = limits
        self._kind = CallKind()
        ask = self._start_all
        self._first = Batcher(ask, executor=ledger.executor, linger=linger)
        self._locked = Batcher(
            ask, executor=ledger.locking_executor, linger=linger, most=LOCKED_AT_ONCE
        )

    async def start(
        self, request: StartRequest, pauses: Iterator[float], *, returned: bool
    ) -> Answered:
        """Ask until there is an answer, and again if it took long: the lease is as old as that.

        What was locked, or has *returned* after a delay, is asked for beside the others, whom it
        may keep waiting. *pauses* gives the seconds between the looks for a locked row.

        Raises:
            Draining, LedgerBusy: as `LedgerRetry.to_begin`. A start that may have been written is
                never given up as busy: nobody else could begin it.
        """
        batcher = self._locked if returned else self._first

        async def ask() -> Answered:
            nonlocal batcher
            answer, asked_at = await batcher.submit(request)
            if isinstance(answer, Busy):
                batcher = self._locked
                raise LedgerBusy(lock_wait(f"execution {request.execution_id}"))
            return answer, asked_at

        failures = 1 if returned else MOST_FAILURES
        answer, asked_at = await self._ledger.retry.to_begin(
            ask, pauses=pauses, kind=self._kind, failures=failures, binding=True
        )
        if isinstance(answer, Execution) and not self._keeper.is_fresh(asked_at):
            return await self._start_anew(ask, answer, asked_at)
        return answer, asked_at

    async def _start_anew(
        self, ask: Callable[[], Awaitable[Answered]], execution: Execution, asked_at: float
    ) -> Answered:
        """Ask until a lease begins in time; the old one is good while it is in time, too.

        The attempt is ours already, so it is asked for like an end: without giving up.
        """
        answer: Execution | Refused | Deferred = execution

        async def ask_anew() -> None:
            nonlocal answer, asked_at
            try:
                answer, asked_at = await ask()
            except LedgerBusy:
                if not self._keeper.is_in_time(asked_at):
                    raise

        await self._ledger.retry.to_finish(ask_anew)
        while isinstance(answer, Execution) and not self._keeper.is_in_time(asked_at):
            await self._ledger.retry.to_finish(ask_anew)
        return answer, asked_at

    def _start_all(self, requests: Sequence[StartRequest]) -> Sequence[tuple[StartAnswer, float]]:
        ledger, availability = self._ledger, self._availability
        asked_at = ledger.clock.monotonic()
        availability.ask(asked_at)
        now = ledger.clock.now()
        try:
            answers = ledger.attempts.start(
                requests,
                now=now,
                node=ledger.node,
                lease=ledger.lease,
                catch_up=self._catch_up(now, asked_at),
            )
        except LedgerUnavailable:
            availability.note_failure(asked_at)
            raise
        availability.note_answer()
        return [(answer, asked_at) for answer in answers]

    def _catch_up(self, now: datetime, at: float) -> CatchUp | None:
        budget = self._limits().budget
        if budget is None:
            return None
        free_for = timedelta(seconds=at - self._availability.free_at)
        return CatchUp(budget=budget, free_at=now - free_for)
