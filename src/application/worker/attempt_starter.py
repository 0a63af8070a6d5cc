"""The start fence as a worker asks for it: in batches, until the ledger answers."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.catching_up import OUTAGE, CatchUp
from cronhare.domain.retries.limits import RetryLimits
from cronhare.ports.attempts import Busy, Deferred, Refused, StartAnswer, StartRequest
from cronhare.ports.errors import LedgerBusy, LedgerUnavailable

from .batching import Batcher
from .leases import LeaseKeeper
from .ledger import LOCKED_AT_ONCE, WorkerLedger, lock_wait

#: A place that is free for so many seconds, and gets nothing: no message of ours is in the queue.
#: Between an ack and the next delivery of a long queue milliseconds pass.
IDLE: Final = 1.0


class Availability:
    """When this worker was free last: it had a place for what was due, and was given nothing.

    It was free before it began, and while the broker gave it nothing. While the ledger is away it
    has its places full of what cannot start; when that is over, that counts as free, too.
    """

    def __init__(self, monotonic: Callable[[], float], *, places: int) -> None:
        """*monotonic* counts seconds; at most *places* deliveries are in hand at a time."""
        self._monotonic = monotonic
        self._places = places
        self._in_hand = 0
        self._failing_since: float | None = None
        self.free_at = self._waiting_since = monotonic()

    def take(self) -> None:
        """Note that a delivery came."""
        now = self._monotonic()
        if self._in_hand < self._places and now - self._waiting_since >= IDLE:
            self.free_at = now
        self._in_hand += 1
        self._waiting_since = now

    def release(self) -> None:
        """Note that one is settled."""
        if self._in_hand >= self._places:
            self._waiting_since = self._monotonic()
        self._in_hand -= 1

    def ask(self, at: float) -> None:
        """Note that the ledger is asked to start something."""
        since = self._failing_since
        if since is not None and at - since >= OUTAGE.total_seconds():
            self.free_at = at

    def note_failure(self, at: float) -> None:
        """Note that the ledger did not answer what it was asked at that time."""
        if self._failing_since is None:
            self._failing_since = at

    def note_answer(self) -> None:
        """Note that it answered."""
        self._failing_since = None


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
        ask = self._start_all
        self._first = Batcher(ask, executor=ledger.executor, linger=linger)
        self._locked = Batcher(
            ask, executor=ledger.locking_executor, linger=linger, most=LOCKED_AT_ONCE
        )

    async def start(self, request: StartRequest, *, returned: bool) -> Answered:
        """Ask until there is an answer, and again if it took long: the lease is as old as that.

        What was locked, or has *returned* after a delay, is asked for beside the others, whom it
        may keep waiting.

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

        answer, asked_at = await self._ledger.retry.to_begin(ask, returned=returned, binding=True)
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
