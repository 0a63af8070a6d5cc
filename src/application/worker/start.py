"""The start fence as a worker asks for it: in batches, until the ledger answers."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.catching_up import OUTAGE, CatchUp
from cronhare.domain.retries.limits import RetryLimits
from cronhare.ports.attempts import Busy, Deferred, Refused, StartRequest
from cronhare.ports.errors import LedgerBusy, LedgerUnavailable

from .leases import LeaseKeeper
from .ledger import Batcher, WorkerLedger, lock_wait

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


@attrs.define(kw_only=True, eq=False)
class AttemptStarter:
    """Asks the ledger to start attempts; a lease that it gives is fresh enough to run on.

    *limits* are those of retries; a start waits *linger* seconds for others. The *availability*
    knows what an outage has held up.
    """

    _ledger: WorkerLedger
    _keeper: LeaseKeeper
    _availability: Availability
    _limits: Callable[[], RetryLimits]
    _linger: float
    _first: Batcher[StartRequest, Answered] = attrs.field(init=False)
    _again: Batcher[StartRequest, Answered] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        ledger, linger = self._ledger, self._linger
        self._first = Batcher(self._start_all, executor=ledger.executor, linger=linger)
        self._again = Batcher(self._start_all, executor=ledger.locking_executor, linger=linger)

    async def start(self, request: StartRequest, *, returned: bool) -> Answered:
        """Ask until there is an answer, and again if it took long: the lease is as old as that.

        What was locked, or has *returned* after a delay, is asked for beside the others, whom it
        may keep waiting.

        Raises:
            Draining, LedgerBusy: as `LedgerRetry.to_begin`. A start that may have been written is
                never given up as busy: nobody else could begin it.
        """
        batcher = self._again if returned else self._first

        def ask() -> Awaitable[Answered]:
            nonlocal batcher
            asked, batcher = batcher.submit(request), self._again
            return asked

        retry, keeper = self._ledger.retry, self._keeper
        latest = await retry.to_begin(ask, returned=returned, binding=True)
        if not isinstance(latest[0], Execution) or keeper.is_fresh(latest[1]):
            return latest

        # The attempt is ours already, so it is asked for anew like an end: without giving up. The
        # old lease is good while it is in time, too.
        async def ask_anew() -> Answered:
            nonlocal latest
            try:
                latest = await ask()
            except LedgerBusy:
                if not keeper.is_in_time(latest[1]):
                    raise
            return latest

        while True:
            answer, asked_at = await retry.to_finish(ask_anew)
            if not isinstance(answer, Execution) or keeper.is_in_time(asked_at):
                return answer, asked_at

    def _start_all(self, requests: Sequence[StartRequest]) -> Sequence[Answered | LedgerBusy]:
        ledger, availability = self._ledger, self._availability
        asked_at = ledger.clock.monotonic()
        availability.ask(asked_at)
        now, catch_up = ledger.clock.now(), None
        if (budget := self._limits().budget) is not None:
            free_for = timedelta(seconds=asked_at - availability.free_at)
            catch_up = CatchUp(budget=budget, free_at=now - free_for)
        try:
            answers = ledger.attempts.start(
                requests, now=now, node=ledger.node, lease=ledger.lease, catch_up=catch_up
            )
        except LedgerUnavailable:
            availability.note_failure(asked_at)
            raise
        availability.note_answer()
        return [
            LedgerBusy(lock_wait(f"execution {request.execution_id}"))
            if isinstance(answer, Busy)
            else (answer, asked_at)
            for request, answer in zip(requests, answers, strict=True)
        ]
