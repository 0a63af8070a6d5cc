"""Telling the ledger how attempts ended, and publishing what follows.

An end waits for whatever somebody else holds in the ledger, but in no place of the worker's: its
task is over, and its message is needed no more. The lease is renewed meanwhile, as far as its row
lets us; if this process dies, the lease lapses, and the attempt counts as lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.ports.attempts import AttemptStorePort, Busy, Finish, Recorded
from cronhare.ports.broker import AsyncBrokerPort, Envelope, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable

from ..logs import say
from ..outcome_log import log_outcome
from ..publishing.follow_up import follow_up, is_last
from ..publishing.missing_queues import MissingQueues, Sent
from .batching import Batcher
from .leases import LeaseKeeper, row_held
from .ledger_retry import LedgerRetry

log = logging.getLogger(__name__)

#: So many ends may wait without a place, and so many bytes of output and params with
#: them; what is more keeps its place until it is recorded.
MOST_PENDING: Final = 1_000
MOST_PENDING_BYTES: Final = 32 * 1024 * 1024

#: So many of what is held are asked for at a time: one keeps the others of its batch waiting.
FEW: Final = 4


@attrs.frozen(kw_only=True)
class End:
    """An attempt that is over at *now*, after *duration* seconds, and how it is to be recorded.

    *headers* are those of the message that began it.
    """

    ticket: AttemptRef
    finish: Finish
    now: datetime
    duration: float
    headers: Mapping[str, object]

    @property
    def kept(self) -> int:
        """How many bytes of output and params are kept with it."""
        finish = self.finish
        return finish.ran.stdout.kept + finish.ran.stderr.kept + len(finish.execution.params)


class Recorder:
    """Records ends; those that are held it owes, and records them as soon as they can be had."""

    def __init__(
        self,
        *,
        node: str,
        broker: AsyncBrokerPort,
        attempts: AttemptStorePort,
        claims: ClaimStorePort,
        clock: ClockPort,
        keeper: LeaseKeeper,
        executor: Executor,
        waiting: Executor,
        ledger_retry: LedgerRetry,
        policy: RetryPolicy,
        seal: Seal,
        linger: float,
        count: Callable[[Recorded], None],
    ) -> None:
        """*executor* has the threads for the ledger, *waiting* those that may wait for locks.

        *count* is told of each end that is recorded.
        """
        self._node = node
        self._broker = broker
        self._attempts = attempts
        self._claims = claims
        self._clock = clock
        self._keeper = keeper
        self._ledger_retry = ledger_retry
        self._policy = policy
        self._seal = seal
        self._count = count
        self._missing = MissingQueues()
        self._owed: dict[AttemptRef, asyncio.Task[None]] = {}
        self._kept = 0  # bytes, of those that are owed
        ask = self._finish_all
        self._fresh = Batcher(ask, executor=executor, linger=linger)
        self._held = Batcher(ask, executor=waiting, linger=linger, most=FEW)
        self._last_ones = Batcher(self._note_last_ones, executor=executor, linger=linger)

    def owes(self, ticket: AttemptRef) -> bool:
        """Tell whether the end of this attempt waits to be recorded."""
        return ticket in self._owed

    def __len__(self) -> int:
        """Count the ends that are owed."""
        return len(self._owed)

    async def settled(self) -> None:
        """Wait until all that are owed are recorded, or cannot be any more."""
        while self._owed:
            await asyncio.wait(set(self._owed.values()))

    async def record(self, end: End) -> None:
        """Record an end, or owe it: its place can be given to others afterwards.

        Raises:
            LedgerUnavailable: the worker shuts down, and the ledger was away for a whole lease
                since; the log tells of it.
        """
        try:
            state = await self._tell_or_owe(end)
        except LedgerUnavailable as error:
            _say_given_up(end, error)
            raise
        if state is not None:
            await self._conclude(end, state)

    async def _tell_or_owe(self, end: End) -> Recorded | None:
        """Tell an end; None, if it is owed."""
        try:
            return await self._tell(end, self._fresh, gives_way=True)
        except LedgerBusy:
            if not self._has_room(end):
                return await self._tell(end, self._held)
        self._owe(end)
        return None

    async def _tell(self, end: End, line: "Line", *, gives_way: bool = False) -> Recorded:
        async def ask() -> Recorded:
            answer = await line.submit(end.finish)
            if isinstance(answer, Busy):
                raise LedgerBusy(row_held(end.ticket.execution_id))
            return answer

        return await self._ledger_retry.to_finish(ask, gives_way=gives_way)

    async def _conclude(self, end: End, state: Recorded) -> None:
        # Before anybody can hear of the next attempt, which may be ours too.
        self._keeper.release(end.finish.execution)
        log_outcome(end.finish, state, duration=f"{end.duration * 1000:.0f}ms", policy=self._policy)
        self._count(state)
        following = follow_up(end.finish, state, now=end.now, seal=self._seal, headers=end.headers)
        if following is not None:
            await self._send(end, following)

    def _has_room(self, end: End) -> bool:
        return len(self._owed) < MOST_PENDING and self._kept + end.kept <= MOST_PENDING_BYTES

    def _owe(self, end: End) -> None:
        self._kept += end.kept
        self._owed[end.ticket] = asyncio.create_task(self._tell_later(end))

    async def _tell_later(self, end: End) -> None:
        try:
            await self._conclude(end, await self._tell(end, self._held))
        except LedgerUnavailable as error:
            _say_given_up(end, error)
        except Exception:
            text = f"The end of execution {end.ticket.execution_id} met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
        finally:
            self._keeper.release(end.finish.execution)
            self._kept -= end.kept
            del self._owed[end.ticket]

    async def _send(self, end: End, following: Envelope) -> None:
        """Publish what follows an attempt. What no queue takes is a reconciler's to send again."""
        sent = Sent.of(following, end.finish.execution)
        published = await self._broker.publish(following)
        if published is Published.CONFIRMED and is_last(following):
            with suppress(LedgerUnavailable):  # a reconciler will send another copy
                await self._last_ones.submit(sent.ticket)
        self._missing.note([sent], [published], now=end.now)

    def _finish_all(self, finishes: Sequence[Finish]) -> Sequence[Recorded | Busy]:
        return self._attempts.finish(finishes, now=self._clock.now(), node=self._node)

    def _note_last_ones(self, tickets: Sequence[AttemptRef]) -> Sequence[None]:
        """Note that the messages of these last attempts are in a queue."""
        self._claims.mark_ends_published(tickets)
        return [None] * len(tickets)


def _say_given_up(end: End, error: LedgerUnavailable) -> None:
    """Tell that an end is not recorded, as the worker shuts down: it will count as lost."""
    text = f"The end of execution {end.ticket.execution_id} is not recorded: {error}"
    say(log, logging.WARNING, "shutdown.given-up", text)


Line = Batcher[Finish, Recorded | Busy]
