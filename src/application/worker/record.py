"""Recording how attempts ended, and publishing what follows.

An end whose row is locked waits without a place of the worker's: its task is over, and its message
is needed no more. Its lease is renewed meanwhile, as far as the lock allows; if this process dies,
the lease lapses, and the attempt counts as lost.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.messages import AttemptRef, kept_headers
from cronhare.domain.texts.words import called
from cronhare.ports import LedgerBusy, LedgerRefused, LedgerUnavailable
from cronhare.ports.attempts import Busy, Finish, Recorded, Superseded
from cronhare.ports.broker import Envelope, Published

from ..logs import say
from ..outcome_log import log_let_go, log_limits, log_outcome
from ..publish import MissingQueues, envelope, follow_up, is_last
from .leases import Running
from .ledger import Batcher, WorkerParts, lock_wait
from .unhandled import PUT_OFF_HEADER

log = logging.getLogger(__name__)


#: Seconds between the looks at a gate that another process is at; it has it for milliseconds.
PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16)


@attrs.define(eq=False)
class GateOpener:
    """Opens gates, together; what is let go for a foreign queue a scheduler publishes."""

    _worker: WorkerParts
    _wanted: set[str] = attrs.field(init=False, factory=set[str])
    _opening: asyncio.Task[None] | None = attrs.field(init=False, default=None)

    def open(self, gates: Iterable[str]) -> None:
        """Let go what may pass these gates, soon; nearly always there are none."""
        self._wanted.update(gates)
        if self._wanted and self._opening is None:
            self._opening = asyncio.create_task(self._open_all())

    async def settled(self) -> None:
        while self._opening is not None:
            await asyncio.wait({self._opening})

    async def _open_all(self) -> None:
        pauses = iter(PAUSES)
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, set()
                busy = await self._open(wanted)
                if not busy:
                    pauses = iter(PAUSES)
                elif (pause := next(pauses, None)) is not None:
                    self._wanted |= busy
                    await asyncio.sleep(pause)
        except LedgerUnavailable:
            self._wanted.clear()
        except Exception:
            self._wanted.clear()
            text = "What was held back is let go by a scheduler: a fault of ours"
            log.exception("%s", text, extra={"action": "gate.fault"})
        finally:
            self._opening = None

    async def _open(self, wanted: Collection[str]) -> frozenset[str]:
        ledger = self._worker.ledger
        claims, clock = ledger.claims, ledger.clock
        answer = await ledger.in_thread(lambda: claims.let_go(wanted, now=clock.now()))
        log_let_go(answer)
        ours = [one for one in answer.executions if one.queue not in self._worker.foreign_queues]
        if ours:
            now, signer = await ledger.now(), self._worker.signer
            messages = [(one, envelope(one, now=now, signer=signer)) for one in ours]
            await self._worker.publish(messages, now)
        return answer.busy


@attrs.define
class Counters:
    """What a worker did since it began."""

    succeeded: int = 0
    retried: int = 0
    ended: int = 0
    adopted: int = 0
    fenced: int = 0
    held: int = 0
    deferred: int = 0
    superseded: int = 0
    parked: int = 0

    def count(self, recorded: State | Superseded) -> None:
        if isinstance(recorded, Superseded):
            self.superseded += 1
        elif recorded is State.SUCCEEDED:
            self.succeeded += 1
        elif recorded is State.RETRYING:
            self.retried += 1
        else:
            self.ended += 1


#: So many ends may wait without a place, each with its output and params; any further one keeps its
#: place until it is recorded.
MOST_PENDING: Final = 200


@attrs.frozen(kw_only=True)
class End:
    """An attempt that ended at *now*, after *duration* s; *headers* are of what began it."""

    running: Running
    finish: Finish
    now: datetime
    duration: float
    headers: Mapping[str, object]


@attrs.define(eq=False)
class Recorder:
    """Records ends. One whose row is locked stays pending until it can be recorded."""

    _worker: WorkerParts
    _gates: GateOpener
    _counters: Counters
    _missing_queues: MissingQueues = attrs.field(init=False)
    _pending: set[asyncio.Task[None]] = attrs.field(init=False, factory=set[asyncio.Task[None]])
    _first: Batcher[Finish, Recorded] = attrs.field(init=False)
    _again: Batcher[Finish, Recorded] = attrs.field(init=False)
    _last_messages: Batcher[AttemptRef, None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        ledger, linger = self._worker.ledger, self._worker.lingers[1]
        self._missing_queues = MissingQueues(in_memory=self._worker.in_memory)
        self._first = Batcher(self._finish_all, in_thread=ledger.threads, linger=linger)
        self._again = Batcher(self._finish_all, in_thread=ledger.in_thread, linger=linger)
        self._last_messages = Batcher(self._mark_published, in_thread=ledger.threads, linger=linger)

    def __len__(self) -> int:
        return len(self._pending)

    async def settled(self) -> None:
        while self._pending:
            await asyncio.wait(self._pending)

    async def record(self, end: End) -> "asyncio.Task[None] | None":
        """Record an end, and publish what follows; or answer with the task that does so later.

        Raises:
            LedgerUnavailable: the worker shuts down, and the ledger was away for too long. The
                lease lapses, and the attempt counts as lost.
        """
        try:
            try:
                answer = await self._ask(self._first, end, bounded=True)
            except LedgerBusy:
                if len(self._pending) < MOST_PENDING:
                    return self._postpone(end)
                answer = await self._ask(self._again, end)
        except LedgerUnavailable as error:
            _say_given_up(end, error)
            raise
        await self._conclude(end, answer)
        return None

    def _ask(
        self, batcher: Batcher[Finish, Recorded], end: End, *, bounded: bool = False
    ) -> Awaitable[Recorded]:
        return self._worker.ledger.retry.to_finish(
            partial(batcher.submit, end.finish), bounded=bounded
        )

    def _postpone(self, end: End) -> "asyncio.Task[None]":
        end = attrs.evolve(end, headers=kept_headers(end.headers))
        task = asyncio.create_task(self._record_later(end))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    async def _record_later(self, end: End) -> None:
        try:
            await self._conclude(end, await self._ask(self._again, end))
        except LedgerUnavailable as error:
            _say_given_up(end, error)
        except Exception:
            text = f"The end of execution {end.finish.execution.id} met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
        finally:
            self._worker.keeper.release(end.running)

    async def _conclude(self, end: End, answer: Recorded) -> None:
        # Before the next attempt is published, which may come to us too.
        worker = self._worker
        worker.keeper.release(end.running)
        finish, state = end.finish.as_recorded(answer)
        execution, ran = finish.execution, finish.ran
        duration = f"{end.duration * 1000:.0f}ms"
        log_outcome(finish, state, duration=duration, policies=worker.policies)
        log_limits(answer)
        self._counters.count(state)
        if isinstance(state, Superseded):
            worker.metrics.superseded()
        else:
            worker.metrics.recorded(state)
            worker.metrics.attempt_ended(ran.outcome.ending, seconds=end.duration)
        if ran.unheard and state is State.SUCCEEDED:
            await self._count_unheard(execution)
        self._gates.open(gates_of(execution))
        if state is State.SUCCEEDED:
            return
        trace = worker.tracing.current()
        headers = {name: end.headers[name] for name in end.headers if name != PUT_OFF_HEADER}
        following = follow_up(
            finish, state, now=end.now, signer=worker.signer, headers=headers, trace=trace
        )
        if following is not None:
            await self._send(end, following)

    async def _send(self, end: End, following: Envelope) -> None:
        """Publish what follows an attempt. What no queue takes, a reconciler sends again."""
        one = end.finish.execution
        published = await self._worker.broker.publish(following)
        if published is Published.CONFIRMED and is_last(following):
            with suppress(LedgerUnavailable):  # then a reconciler sends another copy
                ended = AttemptRef(execution_id=one.id, attempt=one.attempt)
                await self._last_messages.submit(ended)
        self._missing_queues.note([(one, following)], [published], now=end.now)

    async def _count_unheard(self, execution: Execution) -> None:
        ledger, name = self._worker.ledger, called(execution.task, topic=execution.topic)
        try:
            now = await ledger.now()
            await ledger.in_thread(partial(ledger.attempts.count_unheard, name, now=now))
        except (LedgerUnavailable, LedgerRefused) as error:
            text = f"An event of {name} without a listener is not counted: {error}"
            say(log, logging.WARNING, "event.not-counted", text, execution)

    def _finish_all(self, finishes: Sequence[Finish]) -> Sequence[Recorded | LedgerBusy]:
        ledger = self._worker.ledger
        answers = ledger.attempts.finish(finishes, now=ledger.clock.now(), node=ledger.node)
        return [
            LedgerBusy(lock_wait(f"execution {finish.execution.id}"))
            if isinstance(answer, Busy)
            else answer
            for finish, answer in zip(finishes, answers, strict=True)
        ]

    def _mark_published(self, tickets: Sequence[AttemptRef]) -> Sequence[None]:
        self._worker.ledger.claims.mark_ends_published(tickets)
        return [None] * len(tickets)


def _say_given_up(end: End, error: LedgerUnavailable) -> None:
    text = f"The end of execution {end.finish.execution.id} is not recorded: {error}"
    say(log, logging.WARNING, "shutdown.given-up", text)
