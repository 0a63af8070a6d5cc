"""One delivery, from the queue to the ledger: fence, run, finish, publish what follows, ack."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.retry_limits import LATE_RUNS, OUTAGE, CatchUp, waits_for_its_turn
from cronhare.domain.messages import (
    TRACE_HEADER,
    AttemptRef,
    Nacks,
    fault_of_signature,
    nacks_of,
    ticket_of,
    was_overdelivered,
)
from cronhare.domain.texts.moments import say_moment
from cronhare.ports import LedgerBusy, LedgerUnavailable
from cronhare.ports.attempts import Busy, Deferred, Refused, StartRequest
from cronhare.ports.broker import Delivery
from cronhare.ports.system import SpanKind

from ..logs import say
from ..outages import LogLimiter
from ..outcome_log import log_late_runs
from ..publish import envelope, is_carried
from .attempt import AttemptRunner
from .foreign import OVERDELIVERED_REASON, Notes, adopt
from .ledger import Batcher, Draining, WorkerParts, lock_wait
from .record import Counters, GateOpener, Recorder
from .unhandled import quarantine_message, redeliver_later, was_put_off

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class Places:
    """So many are *shared* by the queues of a worker; each queue *apart* has one of its own."""

    shared: int
    apart: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        return self.shared + len(self.apart)


#: A place that is free for so many seconds, and gets nothing: no message of ours is in the queue.
#: Between an ack and the next delivery of a long queue milliseconds pass.
IDLE: Final = 1.0


class Availability:
    """When this worker was free last: it had a place for what was due, and was given nothing.

    It was free before it began, and while the broker gave it nothing. While the ledger is away it
    has its places full of what cannot start; when that is over, that counts as free, too.
    """

    def __init__(self, monotonic: Callable[[], float], *, places: int) -> None:
        self._monotonic = monotonic
        self.places = places
        self._in_hand = 0
        self._failing_since: float | None = None
        self.free_at = self._waiting_since = monotonic()

    def take(self) -> None:
        now = self._monotonic()
        if self._in_hand < self.places and now - self._waiting_since >= IDLE:
            self.free_at = now
        self._in_hand += 1
        self._waiting_since = now

    def release(self) -> None:
        if self._in_hand >= self.places:
            self._waiting_since = self._monotonic()
        self._in_hand -= 1

    def ask(self, at: float) -> None:
        since = self._failing_since
        if since is not None and at - since >= OUTAGE.total_seconds():
            self.free_at = at

    def note_failure(self, at: float) -> None:
        if self._failing_since is None:
            self._failing_since = at

    def note_answer(self) -> None:
        self._failing_since = None


#: The ledger's answer, and when it was asked, in monotonic seconds: the lease it gives is as old.
Answered = tuple[Execution | Refused | Deferred, float]


@attrs.define(eq=False)
class AttemptStarter:
    """Asks the ledger to start attempts; a lease that it gives is fresh enough to run on."""

    _worker: WorkerParts
    _availability: Availability
    _first: Batcher[StartRequest, Answered] = attrs.field(init=False)
    _again: Batcher[StartRequest, Answered] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        ledger, linger = self._worker.ledger, self._worker.lingers[0]
        self._first = Batcher(self._start_all, in_thread=ledger.threads, linger=linger)
        self._again = Batcher(self._start_all, in_thread=ledger.in_thread, linger=linger)

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

        retry, keeper = self._worker.ledger.retry, self._worker.keeper
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
        ledger, availability = self._worker.ledger, self._availability
        asked_at = ledger.clock.monotonic()
        availability.ask(asked_at)
        now, catch_up = ledger.clock.now(), None
        budget, late = self._worker.policies.limits.budget, self._worker.policies.late
        if budget is not None or late is not None:
            free_for = timedelta(seconds=asked_at - availability.free_at)
            catch_up = CatchUp(budget=budget, late=late, free_at=now - free_for)
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


@attrs.define(kw_only=True, eq=False, slots=False)
class DeliveryHandler(WorkerParts):
    """Handles any number of deliveries at a time, each to its end."""

    places: Places
    counters: Counters = attrs.field(init=False, factory=Counters)
    #: Attempts that are asked for, run, or wait to be recorded.
    _in_hand: set[AttemptRef] = attrs.field(init=False, factory=set[AttemptRef])
    _deferrals: LogLimiter = attrs.field(init=False, factory=LogLimiter)

    def __attrs_post_init__(self) -> None:
        self._notes = Notes(self)
        self._availability = Availability(self.ledger.clock.monotonic, places=self.places.shared)
        self._starter = AttemptStarter(self, self._availability)
        self._attempts = AttemptRunner(self)
        self._gates = GateOpener(self)
        self._recorder = Recorder(self, self._gates, self.counters)

    @property
    def pending_ends(self) -> int:
        return len(self._recorder)

    async def settled(self) -> None:
        await self._recorder.settled()
        await self._gates.settled()

    def drain(self) -> None:
        """From now on give back what has not begun; what stays alive is asked to end."""
        self.ledger.retry.drain()
        self._notes.drain()
        self._attempts.wind_down()

    def interrupt(self) -> None:
        self._attempts.interrupt()

    async def handle(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; it is settled then, whatever happened."""
        headers, kind = delivery.message.headers, SpanKind.CONSUMER
        is_apart = delivery.queue in self.places.apart
        if not is_apart:  # it takes no place of the others: those may be free
            self._availability.take()
        with self.tracing.span(
            "delivery", parent=headers.get(TRACE_HEADER), kind=kind, queue=delivery.queue
        ):
            try:
                ticket = ticket_of(headers) if delivery.defect is None else None
                if ticket is None:
                    await self._handle_foreign(delivery)
                else:
                    await self._handle_ours(delivery, ticket)
            except (Draining, LedgerUnavailable):
                await self.broker.nack(delivery, requeue=True)
            except Exception as fault:
                # Unsettled, it would keep a place of the prefetch for ever. The lease of what had
                # begun lapses, and the reconciler decides.
                text = "A delivery met a fault of ours"
                log.exception("%s", text, extra={"action": "delivery.fault"})
                await self._quarantine(delivery, f"{text}: {fault!r}")
            finally:
                if not is_apart:
                    self._availability.release()

    async def _handle_foreign(self, delivery: Delivery) -> None:
        """Adopt a message of another program, and ack it at once: it may come again until then."""
        async with self._notes.noted(delivery) as pill:
            try:
                reason = pill or await adopt(self, delivery)
            except LedgerBusy:  # a copy of it rests
                return
            if reason is not None:
                await self._quarantine(delivery, reason)
            else:
                self.counters.adopted += 1
                await self.broker.ack(delivery)

    async def _handle_ours(self, delivery: Delivery, ticket: AttemptRef) -> None:
        """Run the attempt of a ticket; its message's body is not read.

        Not if a copy of the message is at hand: the ledger would let both begin, because a start
        may be repeated. Headers can be forged: of what met the broker's limit, and is in
        quarantine, this copy alone is dropped, and the ledger sends another.
        """
        message, pending = delivery.message, None
        if fault := fault_of_signature(message.body, message.headers, self.signer):
            await self._quarantine(delivery, fault)
        elif was_overdelivered(message.headers):
            await self._fence_off(delivery, OVERDELIVERED_REASON)
        elif ticket in self._in_hand:
            await self._fence_off(delivery, "a copy of its message is at hand")
        else:
            self._in_hand.add(ticket)
            try:
                pending = await self._begin(delivery, ticket)
            finally:
                if pending is None:
                    self._in_hand.discard(ticket)
                else:
                    pending.add_done_callback(lambda _: self._in_hand.discard(ticket))

    async def _begin(self, delivery: Delivery, ticket: AttemptRef) -> "asyncio.Task[None] | None":
        request = StartRequest(
            execution_id=ticket.execution_id,
            attempt=ticket.attempt,
            nacks=Nacks(by_queue=nacks_of(delivery.message.headers), trip=self.retry_delay),
        )
        try:
            answer, asked_at = await self._starter.start(request, returned=was_put_off(delivery))
        except LedgerBusy as busy:
            await redeliver_later(self.broker, delivery, ticket, str(busy))
            return None
        match answer:
            case Execution() as execution:
                running = self.keeper.hold(execution, since=asked_at)
                self.metrics.started(execution)
                try:
                    pending = await self._recorder.record(
                        await self._attempts.run(running, delivery)
                    )
                except BaseException:
                    self.keeper.release(running)
                    raise
                await self.broker.ack(delivery)
                return pending
            case Refused(reason, unknown=True):
                await self._quarantine(delivery, reason)
            case Refused(reason, gate=str(gate)):
                self.counters.held += 1
                say(log, logging.DEBUG, "attempt.held", f"Not started now: {reason}")
                await self.broker.ack(delivery)  # it waits in the ledger now
                self._gates.open([gate])  # its turn may have come since
            case Refused(reason):
                await self._fence_off(delivery, reason)
            case Deferred(execution=execution, at=at):
                await self._defer(delivery, execution, at)
        return None

    async def _fence_off(self, delivery: Delivery, reason: str) -> None:
        self.counters.fenced += 1
        self.metrics.fenced()
        say(log, logging.DEBUG, "attempt.fenced", f"Not started again: {reason}")
        await self.broker.ack(delivery)

    async def _defer(self, delivery: Delivery, execution: Execution, at: datetime) -> None:
        self.counters.deferred += 1
        is_late = waits_for_its_turn(execution)
        topic = LATE_RUNS if is_late else execution.queue
        is_news = self._deferrals.is_due(topic, self.ledger.clock.monotonic())
        if is_news and is_late:
            log_late_runs([execution])
        elif is_news:
            place = say_moment(execution.next_attempt_at or at)
            text = (
                f"An outage held up retries: they start as the retry budget of queue "
                f"{execution.queue} has places, the next at {place}"
            )
            say(log, logging.WARNING, "retry.spread", text, queue=execution.queue)
        if is_carried(execution, now=at):  # or the reconciler finds it when it is due
            await self.broker.publish(envelope(execution, now=at, signer=self.signer))
        await self.broker.ack(delivery)

    async def _quarantine(self, delivery: Delivery, reason: str) -> None:
        self.counters.parked += 1
        self.metrics.quarantined()
        await quarantine_message(self.broker, delivery, reason)
