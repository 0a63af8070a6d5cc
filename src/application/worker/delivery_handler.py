"""One delivery, from the queue to the ledger: fence, run, finish, publish what follows, ack."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import AttemptRef, IncomingTask, Unreadable, read
from cronhare.domain.messages.nack_count import Nacks
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.retries.retry import RetryPolicy, Verdict, decide, give_back
from cronhare.domain.schedules.catalog import Catalog
from cronhare.ports.attempts import (
    AttemptStorePort,
    Busy,
    EndRefused,
    Finish,
    Recorded,
    Refused,
    StartRequest,
    Superseded,
)
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable
from cronhare.ports.runner import AttemptResult, StopReason, TaskRunnerPort

from ..logs import place_of, say
from ..redelivery.delay import delay_count, redeliver_later, redeliver_untried, without_delay_count
from ..redelivery.quarantine_message import FOREIGN_REFUSED, quarantine_message
from ..redelivery.waiting_room_sender import WaitingRoomSender
from .adopting import Adopter
from .batching import Batcher
from .invocation import gone_astray, prepare
from .leases import LeaseKeeper, row_held
from .ledger_retry import MOST_SILENCES, Draining, Kind, LedgerRetry
from .lock_waits import LockWaits
from .recording import FEW, End, Recorder

log = logging.getLogger(__name__)

#: Seconds that one of many attempts waits to be started together with others: an ack and the
#: delivery that follows it take less. And to be finished: what began together ends at its own
#: time, while each batch that is spared leaves the machine two milliseconds for tasks.
LINGERS = (0.004, 0.02)


@attrs.define
class Counters:
    """What a worker did since it began."""

    succeeded: int = 0
    retried: int = 0
    ended: int = 0
    adopted: int = 0
    fenced: int = 0
    superseded: int = 0
    parked: int = 0


class DeliveryHandler:
    """Handles deliveries; any number at a time, each to its end."""

    def __init__(
        self,
        *,
        node: str,
        broker: AsyncBrokerPort,
        attempts: AttemptStorePort,
        runner: TaskRunnerPort,
        catalog: Catalog,
        clock: ClockPort,
        keeper: LeaseKeeper,
        policy: RetryPolicy,
        lease: timedelta,
        executor: Executor,
        waiting: Executor,
        places: int,
        random_fraction: Callable[[], float],
        uuid: Callable[[], UUID],
        claims: ClaimStorePort,
        retry_delay: timedelta,
        seal: Seal,
        accepts_foreign: bool = True,
        lingers: tuple[float, float] = LINGERS,
    ) -> None:
        """*policy* holds for schedules without one; *executor* has the threads for the ledger.

        What may wait there for locks has those of *waiting*. At most *places* deliveries are
        handled at a time.
        *retry_delay* is how long a nacked message is away. *seal* signs our messages and knows
        them; whether messages of others are run, says *accepts_foreign*. *lingers* are seconds, see
        `LINGERS`.
        """
        self.counters = Counters()
        self._node = node
        self._broker = broker
        self._attempts = attempts
        self._runner = runner
        self._catalog = catalog
        self._clock = clock
        self._keeper = keeper
        self._policy = policy
        self._executor = executor
        self._waiting = waiting
        self._claims = claims
        self._random_fraction = random_fraction
        self._ledger_retry = LedgerRetry(clock, timeout=lease, is_there=self._ledger_is_there)
        self._seal = seal
        self._trip = retry_delay
        self._accepts_foreign = accepts_foreign
        self._waiting_room = WaitingRoomSender(broker, clock.monotonic)
        self._adopter = Adopter(
            node=node,
            broker=broker,
            waiting_room=self._waiting_room,
            attempts=attempts,
            claims=claims,
            clock=clock,
            executor=waiting,
            ledger_retry=self._ledger_retry,
            uuid=uuid,
            seal=seal,
        )
        self._interrupted = False
        self._at_hand: set[AttemptRef] = set()
        self._ends: dict[int, asyncio.Event] = {}  # each is set when the attempt is over
        to_start, to_finish = lingers
        self._lease = lease
        ask = self._start_all
        self._starts = Batcher(ask, executor=executor, linger=to_start)
        self._held_starts = Batcher(ask, executor=waiting, linger=to_start, most=FEW)
        self._held = LockWaits(clock.monotonic, places=places)
        self._kind = Kind()
        self._recorder = Recorder(
            node=node,
            broker=broker,
            attempts=attempts,
            claims=claims,
            clock=clock,
            keeper=keeper,
            executor=executor,
            waiting=waiting,
            ledger_retry=self._ledger_retry,
            policy=policy,
            seal=seal,
            linger=to_finish,
            count=self._count,
        )

    @property
    def running(self) -> frozenset[int]:
        """The executions that this worker has begun and not finished."""
        return self._keeper.held

    @property
    def pending_ends(self) -> int:
        """How many results wait for the ledger without a place."""
        return len(self._recorder)

    async def settled(self) -> None:
        """Wait until no result waits any more."""
        await self._recorder.settled()

    def drain(self) -> None:
        """From now on give back what has not begun."""
        self._ledger_retry.drain()

    def interrupt(self) -> None:
        """End what runs; what was asked for and begins from now on ends before it is run."""
        self._interrupted = True
        for execution_id in self.running:
            self._runner.stop(execution_id, StopReason.INTERRUPTED)

    async def handle(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; it is settled then, whatever happened."""
        try:
            await self._handle(delivery)
        except (Draining, LedgerUnavailable):
            await self._broker.nack(delivery, requeue=True)
        except Exception as fault:
            # Unsettled, it would hold a place of the prefetch for ever; of what had begun, the
            # lease lapses, and the reconciler decides.
            text = "A delivery met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await self._park(delivery, f"{text}: {fault!r}")

    async def _handle(self, delivery: Delivery) -> None:
        message = delivery.message
        if delivery.defect is not None:
            await self._park(delivery, delivery.defect.reason)
            return
        match read(message.body, message.headers, self._seal):
            case Unreadable(reason):
                await self._park(delivery, reason)
            case IncomingTask(ticket=AttemptRef() as ticket) as call:
                await self._answer(delivery, ticket, Nacks(by_queue=call.nacks, trip=self._trip))
            case IncomingTask() as call:
                await self._answer_foreign(delivery, call)

    async def _answer_foreign(self, delivery: Delivery, call: IncomingTask) -> None:
        """Make a message of somebody else ours: a row of the ledger, and a message of our own.

        Until it is acked it may come again, whenever a channel is lost: so that is at once.
        """
        if not self._accepts_foreign:
            await self._park(delivery, FOREIGN_REFUSED)
            return
        returned = delay_count(delivery.message.headers) > 0
        if returned and not self._held.has_room:
            name = self._adopter.name_of(delivery)
            await self._waiting_room.defer_untried(
                delivery, last_failed=self._held.last_failed, id_=name
            )
            return
        with suppress(LedgerBusy), self._held.place(returned=returned) as looks:
            await self._adopt(delivery, call, looks)

    async def _adopt(self, delivery: Delivery, call: IncomingTask, looks: Iterator[float]) -> None:
        refused = await self._adopter.take(delivery, call, looks)
        if refused is not None:
            await self._park(delivery, refused.reason)
        else:
            self.counters.adopted += 1
            await self._broker.ack(delivery)

    async def _answer(self, delivery: Delivery, ticket: AttemptRef, nacks: Nacks) -> None:
        """Begin the attempt that the ticket stands for, if the ledger lets us.

        The ledger would let us twice, because a start can be repeated: of two copies that are
        here at once, the second one ends here.
        """
        if ticket in self._at_hand or self._recorder.owes(ticket):
            await self._fence_off(delivery, "a copy of its message is at hand")
            return
        self._at_hand.add(ticket)
        try:
            await self._begin(delivery, ticket, nacks)
        finally:
            self._at_hand.discard(ticket)

    async def _begin(self, delivery: Delivery, ticket: AttemptRef, nacks: Nacks) -> None:
        request = StartRequest(
            execution_id=ticket.execution_id, attempt=ticket.attempt, nacks=nacks
        )
        returned = delay_count(delivery.message.headers) > 0
        if returned and not self._held.has_room:
            await redeliver_untried(
                self._broker,
                delivery,
                last_failed=self._held.last_failed,
                random_fraction=self._random_fraction(),
            )
            return
        try:
            with self._held.place(returned=returned) as looks:
                answer, asked_at = await self._start(request, looks, returned=returned)
        except LedgerBusy as busy:
            await redeliver_later(self._broker, delivery, ticket, str(busy))
            return
        match answer:
            case Refused(reason, unknown=True):
                await self._park(delivery, reason)
            case Refused(reason):
                await self._fence_off(delivery, reason)
            case Execution() as execution:
                self._keeper.hold(execution, since=asked_at)
                try:
                    await self._recorder.record(await self._perform(execution, delivery, ticket))
                except BaseException:
                    self._keeper.release(execution)
                    raise
                await self._broker.ack(delivery)

    async def _start(
        self, request: StartRequest, looks: Iterator[float], *, returned: bool
    ) -> tuple[Execution | Refused, float]:
        """Ask for a start until it is answered, and anew if the answer took long to come.

        Its lease is nearly over then: whoever holds it lets it begin anew by asking again. What
        was held is asked for beside the others, whom it may keep waiting. A start that may be
        written gives no place away: nobody else could begin it.
        """
        line = self._held_starts if returned else self._starts

        async def ask() -> tuple[Execution | Refused, float]:
            nonlocal line
            answer, asked_at = await line.submit(request)
            if isinstance(answer, Busy):
                line = self._held_starts
                raise LedgerBusy(row_held(request.execution_id))
            return answer, asked_at

        silences = 1 if returned else MOST_SILENCES
        answer, asked_at = await self._ledger_retry.to_begin(
            ask, looks=looks, kind=self._kind, silences=silences, binding=True
        )
        if isinstance(answer, Execution) and not self._keeper.is_fresh(asked_at):
            return await self._start_anew(ask, answer, asked_at)
        return answer, asked_at

    async def _start_anew(
        self,
        ask: Callable[[], Awaitable[tuple[Execution | Refused, float]]],
        execution: Execution,
        asked_at: float,
    ) -> tuple[Execution | Refused, float]:
        """Ask until a lease begins that is in time. The old one is good as long as it is, too.

        It is ours already, so that is told like an end.
        """
        answer: Execution | Refused = execution

        async def ask_anew() -> None:
            nonlocal answer, asked_at
            try:
                answer, asked_at = await ask()
            except LedgerBusy:
                if not self._keeper.is_in_time(asked_at):
                    raise

        await self._ledger_retry.to_finish(ask_anew)
        while isinstance(answer, Execution) and not self._keeper.is_in_time(asked_at):
            await self._ledger_retry.to_finish(ask_anew)
        return answer, asked_at

    async def _ledger_is_there(self) -> bool:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._waiting, self._claims.now)
        except LedgerUnavailable:
            return False
        return True

    def _start_all(
        self, requests: Sequence[StartRequest]
    ) -> Sequence[tuple[Execution | Refused | Busy, float]]:
        """Ask the ledger, and say when: the leases that it gives are as old as the question."""
        asked_at = self._clock.monotonic()
        answers = self._attempts.start(
            requests, now=self._clock.now(), node=self._node, lease=self._lease
        )
        return [(answer, asked_at) for answer in answers]

    async def _perform(self, execution: Execution, delivery: Delivery, ticket: AttemptRef) -> End:
        """Run the attempt; answer what is to be recorded of it."""
        say(log, logging.INFO, "attempt.start", "Processing task", execution)
        params = f"Task parameters: {execution.params}"
        say(log, logging.DEBUG, "attempt.params", params, **place_of(execution))
        began = self._clock.monotonic()
        ran, verdict, now = await self._carry_out(execution, delivery.queue)
        return End(
            ticket=ticket,
            finish=Finish(execution=execution, ran=ran, verdict=verdict),
            now=now,
            duration=self._clock.monotonic() - began,
            headers=kept_headers(without_delay_count(delivery.message.headers)),
        )

    async def _carry_out(
        self, execution: Execution, queue: str
    ) -> tuple[AttemptResult, Verdict, datetime]:
        """Run the attempt, or give back what does not run here, and decide what becomes of it."""
        policy = execution.retry or self._policy
        astray = gone_astray(execution, self._catalog, queue=queue)
        if astray is not None:
            back = give_back(
                astray,
                attempt=execution.attempt,
                policy=policy,
                random_fraction=self._random_fraction(),
            )
            return _not_run(astray), back, await self._ended(execution)
        ran = await self._run(execution)
        now = await self._ended(execution)
        verdict = decide(
            ran.outcome,
            deaths=execution.deaths,
            policy=policy,
            crashed_at=execution.crashed_at,
            now=now,
            random_fraction=self._random_fraction(),
        )
        return ran, verdict, now

    async def _ended(self, execution: Execution) -> datetime:
        """Renew its lease no more, and tell the time at which it has ended.

        Not here in the loop: after a leap of its clock the worker asks the ledger for the time.
        """
        self._keeper.has_ended(execution)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._clock.now)

    async def _run(self, execution: Execution) -> AttemptResult:
        match prepare(execution, self._catalog):
            case AttemptResult() as refused:
                return refused
            case invocation:
                await self._end_earlier(execution)
                if self._interrupted:
                    return _not_run("interrupted: the worker shuts down")
                over = self._ends[execution.id] = asyncio.Event()
                try:
                    return await self._runner.run(invocation)
                finally:
                    del self._ends[execution.id]
                    over.set()

    async def _end_earlier(self, execution: Execution) -> None:
        """End an attempt that was lost here while we were stopped, before the next one begins."""
        while (over := self._ends.get(execution.id)) is not None:
            self._runner.stop(execution.id, StopReason.LEASE_LOST)
            await over.wait()

    async def _fence_off(self, delivery: Delivery, reason: str) -> None:
        self.counters.fenced += 1
        say(log, logging.DEBUG, "attempt.fenced", f"Not started again: {reason}")
        await self._broker.ack(delivery)

    async def _park(self, delivery: Delivery, reason: str) -> None:
        self.counters.parked += 1
        await quarantine_message(self._broker, delivery, reason)

    def _count(self, recorded: Recorded) -> None:
        match recorded:
            case State.SUCCEEDED:
                self.counters.succeeded += 1
            case State.RETRYING:
                self.counters.retried += 1
            case Superseded() | EndRefused(is_over=False):
                self.counters.superseded += 1
            case _:
                self.counters.ended += 1


def _not_run(why: str) -> AttemptResult:
    """End an attempt that the ledger let begin, and that is given back before it is run."""
    return AttemptResult(outcome=Outcome(ending=Ending.INTERRUPTED, error=TaskError(message=why)))
