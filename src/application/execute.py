"""One delivery, from the queue to the ledger: fence, run, finish, publish what follows, ack."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import attrs

from cronhare.domain.catalog import Catalog
from cronhare.domain.deaths import Nacks
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import Call, Ticket, Unreadable, read
from cronhare.domain.outcome import Ending, Outcome, TaskError
from cronhare.domain.retry import GiveBack, RetryPolicy, decide
from cronhare.domain.signing import Seal
from cronhare.ports.attempts import AttemptStorePort, Finish, Refused, Start, Superseded
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerUnavailable
from cronhare.ports.runner import Ran, StopReason, TaskRunnerPort

from .adopting import Adopter
from .batching import Batcher
from .follow_up import follow_up
from .insist import Draining, Insistence
from .invocation import gone_astray, prepare
from .leases import LeaseKeeper
from .logs import place_of, say
from .parking import FOREIGN_REFUSED, park
from .story import tell

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


class Worker:
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
        chance: Callable[[], float],
        uuid: Callable[[], UUID],
        claims: ClaimStorePort,
        retry_delay: timedelta,
        seal: Seal,
        accepts_foreign: bool = True,
        lingers: tuple[float, float] = LINGERS,
    ) -> None:
        """*policy* holds for schedules without one; *executor* has the threads for the ledger.

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
        self._chance = chance
        self._insist = Insistence(clock, patience=lease)
        self._seal = seal
        self._trip = retry_delay
        self._accepts_foreign = accepts_foreign
        self._adopter = Adopter(
            node=node,
            broker=broker,
            attempts=attempts,
            claims=claims,
            clock=clock,
            executor=executor,
            insist=self._insist,
            uuid=uuid,
            seal=seal,
        )
        self._interrupted = False
        self._at_hand: set[Ticket] = set()
        self._ends: dict[int, asyncio.Event] = {}  # each is set when the attempt is over
        to_start, to_finish = lingers
        self._lease = lease
        self._starts = Batcher[Start, tuple[Execution | Refused, float]](
            self._start_all,
            executor=executor,
            linger=to_start,
        )
        self._finishes = Batcher[Finish, State | Superseded](
            lambda finishes: attempts.finish(finishes, now=clock.now(), node=node),
            executor=executor,
            linger=to_finish,
        )

    @property
    def running(self) -> frozenset[int]:
        """The executions that this worker has begun and not finished."""
        return self._keeper.held

    def drain(self) -> None:
        """From now on give back what has not begun."""
        self._insist.drain()

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
            case Call(ticket=Ticket() as ticket) as call:
                await self._answer(delivery, ticket, Nacks(count=call.nacks, trip=self._trip))
            case Call() as call:
                await self._answer_foreign(delivery, call)

    async def _answer_foreign(self, delivery: Delivery, call: Call) -> None:
        """Make a message of somebody else ours: a row of the ledger, and a message of our own.

        Until it is acked it may come again, whenever a channel is lost: so that is at once.
        """
        if not self._accepts_foreign:
            await self._park(delivery, FOREIGN_REFUSED)
            return
        refused = await self._adopter.take(delivery, call)
        if refused is not None:
            await self._park(delivery, refused.reason)
        else:
            self.counters.adopted += 1
            await self._broker.ack(delivery)

    async def _answer(self, delivery: Delivery, ticket: Ticket, nacks: Nacks) -> None:
        """Begin the attempt that the ticket stands for, if the ledger lets us.

        The ledger would let us twice, because a start can be repeated: of two copies that are
        here at once, the second one ends here.
        """
        if ticket in self._at_hand:
            await self._fence_off(delivery, "a copy of its message is at hand")
            return
        self._at_hand.add(ticket)
        try:
            await self._begin(delivery, ticket, nacks)
        finally:
            self._at_hand.discard(ticket)

    async def _begin(self, delivery: Delivery, ticket: Ticket, nacks: Nacks) -> None:
        wish = Start(execution_id=ticket.execution_id, attempt=ticket.attempt, nacks=nacks)
        answer, asked_at = await self._start(wish)
        match answer:
            case Refused(reason, unknown=True):
                await self._park(delivery, reason)
            case Refused(reason):
                await self._fence_off(delivery, reason)
            case Execution() as execution:
                self._keeper.hold(execution, since=asked_at)
                try:
                    following = await self._perform(execution, delivery)
                finally:  # before anybody can hear of the next attempt, which may be ours too
                    self._keeper.release(execution)
                await self._conclude(delivery, following)

    async def _start(self, wish: Start) -> tuple[Execution | Refused, float]:
        """Ask for a start until it is answered, and once more if the answer took long to come.

        Its lease is nearly over then: whoever holds it lets it begin anew by asking again.
        """
        answer, asked_at = await self._insist.to_begin(lambda: self._starts.submit(wish))
        if isinstance(answer, Execution) and not self._keeper.is_fresh(asked_at):
            with suppress(Draining):
                return await self._insist.to_begin(lambda: self._starts.submit(wish))
        return answer, asked_at

    def _start_all(self, wishes: Sequence[Start]) -> Sequence[tuple[Execution | Refused, float]]:
        """Ask the ledger, and say when: the leases that it gives are as old as the question."""
        asked_at = self._clock.monotonic()
        answers = self._attempts.start(
            wishes, now=self._clock.now(), node=self._node, lease=self._lease
        )
        return [(answer, asked_at) for answer in answers]

    async def _perform(self, execution: Execution, delivery: Delivery) -> Envelope | None:
        """Run the attempt and record its end; answer the message that has to follow."""
        say(log, logging.INFO, "attempt.start", "Processing task", execution)
        params = f"Task parameters: {execution.params}"
        say(log, logging.DEBUG, "attempt.params", params, **place_of(execution))
        began = self._clock.monotonic()
        policy = execution.retry or self._policy
        astray = gone_astray(
            execution, self._catalog, queue=delivery.queue, retries=policy.max_retries
        )
        ran = await self._run(execution) if astray is None else _not_run(astray)
        duration = self._clock.monotonic() - began
        self._keeper.has_ended(execution)
        # Not here in the loop: after a leap of its clock the worker asks the ledger for the time.
        now = await asyncio.get_running_loop().run_in_executor(self._executor, self._clock.now)
        verdict = (
            decide(
                ran.outcome,
                deaths=execution.deaths,
                policy=policy,
                crashed_at=execution.crashed_at,
                now=now,
                chance=self._chance(),
            )
            if astray is None
            else GiveBack(astray)
        )
        finish = Finish(execution=execution, ran=ran, verdict=verdict)
        state = await self._insist.to_finish(lambda: self._finishes.submit(finish))
        tell(finish, state, duration=f"{duration * 1000:.0f}ms", policy=self._policy)
        self._count(state)
        return follow_up(finish, state, now=now, seal=self._seal, headers=delivery.message.headers)

    async def _run(self, execution: Execution) -> Ran:
        match prepare(execution, self._catalog):
            case Ran() as refused:
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

    async def _conclude(self, delivery: Delivery, following: Envelope | None) -> None:
        if following is not None:
            published = await self._broker.publish(following)
            if published is not Published.CONFIRMED:
                text = f"Message {following.message.id} may not have arrived ({published.value})"
                say(log, logging.WARNING, "publish.unknown", text)
        await self._broker.ack(delivery)

    async def _fence_off(self, delivery: Delivery, reason: str) -> None:
        self.counters.fenced += 1
        say(log, logging.DEBUG, "attempt.fenced", f"Not started again: {reason}")
        await self._broker.ack(delivery)

    async def _park(self, delivery: Delivery, reason: str) -> None:
        self.counters.parked += 1
        await park(self._broker, delivery, reason)

    def _count(self, state: State | Superseded) -> None:
        match state:
            case State.SUCCEEDED:
                self.counters.succeeded += 1
            case State.RETRYING:
                self.counters.retried += 1
            case Superseded():
                self.counters.superseded += 1
            case _:
                self.counters.ended += 1


def _not_run(why: str) -> Ran:
    """End an attempt that the ledger let begin, and that is given back before it is run."""
    return Ran(outcome=Outcome(ending=Ending.INTERRUPTED, error=TaskError(message=why)))
