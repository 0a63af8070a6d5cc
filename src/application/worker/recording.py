"""Recording how attempts ended, and publishing what follows.

An end whose row is locked waits without a place of the worker's: its task is over, and its message
is needed no more. Its lease is renewed meanwhile, as far as the lock allows; if this process dies,
the lease lapses, and the attempt counts as lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.messages.signing import Seal
from cronhare.ports.attempts import Busy, EndRefused, Finish, Recorded, Superseded
from cronhare.ports.broker import AsyncBrokerPort, Envelope, Published
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable
from cronhare.ports.metrics import MetricsPort
from cronhare.ports.tracing import TracingPort

from ..limit_log import log_limits
from ..logs import say
from ..outcome_log import log_outcome
from ..publishing.follow_up import follow_up, is_last
from ..publishing.missing_queues import MissingQueues, Sent
from .batching import Batcher
from .gate_opener import GateOpener
from .leases import LeaseKeeper
from .ledger import WorkerLedger
from .lock_waits import LOCKED_AT_ONCE, lock_wait
from .unheard_events import count_unheard

log = logging.getLogger(__name__)

#: So many ends may wait without a place, and so many bytes of output and params with them; any
#: further one keeps its place until it is recorded.
MOST_PENDING: Final = 1_000
MOST_PENDING_BYTES: Final = 32 * 1024 * 1024


@attrs.frozen(kw_only=True)
class End:
    """An attempt that ended at *now*, after *duration* seconds, and how it is to be recorded.

    *headers* are those of the message that began it.
    """

    ticket: AttemptRef
    finish: Finish
    now: datetime
    duration: float
    headers: Mapping[str, object]

    @property
    def bytes(self) -> int:
        """How many bytes of output, result and params it has."""
        ran, params = self.finish.ran, self.finish.execution.params
        return ran.stdout.kept + ran.stderr.kept + len(ran.report.result or "") + len(params)


class Recorder:
    """Records ends. One whose row is locked stays pending until it can be recorded."""

    def __init__(
        self,
        *,
        ledger: WorkerLedger,
        broker: AsyncBrokerPort,
        keeper: LeaseKeeper,
        policies: RetryPolicies,
        seal: Seal,
        linger: float,
        count: Callable[[State | EndRefused | Superseded], None],
        gates: GateOpener,
        in_memory: bool,
        metrics: MetricsPort,
        tracing: TracingPort,
    ) -> None:
        """*count* is called for each recorded end, which waits *linger* seconds for others.

        *gates* are opened for those that waited for it.
        """
        self._ledger = ledger
        self._broker = broker
        self._keeper = keeper
        self._policies = policies
        self._seal = seal
        self._count = count
        self._gates = gates
        self._metrics = metrics
        self._tracing = tracing
        self._missing_queues = MissingQueues(in_memory=in_memory)
        self._pending: dict[AttemptRef, asyncio.Task[None]] = {}
        self._pending_bytes = 0
        ask, threads, locking = self._finish_all, ledger.executor, ledger.locking_executor
        self._first = Batcher(ask, executor=threads, linger=linger)
        self._locked = Batcher(ask, executor=locking, linger=linger, most=LOCKED_AT_ONCE)
        self._last_messages = Batcher(self._mark_published, executor=threads, linger=linger)

    def has_pending(self, ticket: AttemptRef) -> bool:
        """Tell whether the end of this attempt is pending."""
        return ticket in self._pending

    def __len__(self) -> int:
        """Count the pending ends."""
        return len(self._pending)

    async def settled(self) -> None:
        """Wait until all pending ends are recorded or given up."""
        while self._pending:
            await asyncio.wait(set(self._pending.values()))

    async def record(self, end: End) -> None:
        """Record an end, or keep it pending: its place is free afterwards.

        Raises:
            LedgerUnavailable: the worker shuts down, and the ledger was away for a whole lease
                since; that is logged.
        """
        try:
            state = await self._record_or_postpone(end)
        except LedgerUnavailable as error:
            _say_given_up(end, error)
            raise
        if state is not None:
            await self._conclude(end, state)

    async def _record_or_postpone(self, end: End) -> Recorded | None:
        """Record an end; None if it is pending."""
        try:
            return await self._record(end, self._first, bounded=True)
        except LedgerBusy:
            if not self._has_room(end):
                return await self._record(end, self._locked)
        self._postpone(end)
        return None

    async def _record(
        self, end: End, batcher: "FinishBatcher", *, bounded: bool = False
    ) -> Recorded:
        async def ask() -> Recorded:
            answer = await batcher.submit(end.finish)
            if isinstance(answer, Busy):
                raise LedgerBusy(lock_wait(f"execution {end.ticket.execution_id}"))
            return answer

        return await self._ledger.retry.to_finish(ask, bounded=bounded)

    async def _conclude(self, end: End, answer: Recorded) -> None:
        # Before the next attempt is published, which may come to us too.
        self._keeper.release(end.finish.execution)
        duration = f"{end.duration * 1000:.0f}ms"
        finish, state = end.finish.as_recorded(answer)
        log_outcome(finish, state, duration=duration, policies=self._policies)
        log_limits(answer)
        self._count(state)
        self._measure(finish, state, seconds=end.duration)
        await count_unheard(self._ledger, finish, state)
        self._gates.open(gates_of(finish.execution))
        following = follow_up(
            finish,
            state,
            now=end.now,
            seal=self._seal,
            headers=end.headers,
            trace=self._tracing.current(),
        )
        if following is not None:
            await self._send(end, following)

    def _measure(
        self, finish: Finish, state: State | EndRefused | Superseded, *, seconds: float
    ) -> None:
        match state:
            case Superseded() | EndRefused(is_over=False):
                self._metrics.superseded()
                return
            case State():
                self._metrics.recorded(state)
        self._metrics.attempt_ended(finish.ran.outcome.ending, seconds=seconds)

    def _has_room(self, end: End) -> bool:
        return (
            len(self._pending) < MOST_PENDING
            and self._pending_bytes + end.bytes <= MOST_PENDING_BYTES
        )

    def _postpone(self, end: End) -> None:
        self._pending_bytes += end.bytes
        self._pending[end.ticket] = asyncio.create_task(self._record_later(end))

    async def _record_later(self, end: End) -> None:
        try:
            await self._conclude(end, await self._record(end, self._locked))
        except LedgerUnavailable as error:
            _say_given_up(end, error)
        except Exception:
            text = f"The end of execution {end.ticket.execution_id} met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
        finally:
            self._keeper.release(end.finish.execution)
            self._pending_bytes -= end.bytes
            del self._pending[end.ticket]

    async def _send(self, end: End, following: Envelope) -> None:
        """Publish what follows an attempt. What no queue takes, a reconciler sends again."""
        sent = Sent.of(following, end.finish.execution)
        published = await self._broker.publish(following)
        if published is Published.CONFIRMED and is_last(following):
            with suppress(LedgerUnavailable):  # then a reconciler sends another copy
                await self._last_messages.submit(sent.ticket)
        self._missing_queues.note([sent], [published], now=end.now)

    def _finish_all(self, finishes: Sequence[Finish]) -> Sequence[Recorded | Busy]:
        ledger = self._ledger
        return ledger.attempts.finish(finishes, now=ledger.clock.now(), node=ledger.node)

    def _mark_published(self, tickets: Sequence[AttemptRef]) -> Sequence[None]:
        self._ledger.claims.mark_ends_published(tickets)
        return [None] * len(tickets)


def _say_given_up(end: End, error: LedgerUnavailable) -> None:
    text = f"The end of execution {end.ticket.execution_id} is not recorded: {error}"
    say(log, logging.WARNING, "shutdown.given-up", text)


FinishBatcher = Batcher[Finish, Recorded | Busy]
