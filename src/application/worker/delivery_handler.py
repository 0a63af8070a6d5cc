"""One delivery, from the queue to the ledger: fence, run, finish, publish what follows, ack."""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.messages import (
    TRACE_HEADER,
    AttemptRef,
    IncomingTask,
    Unreadable,
    fault_of_seal,
    read,
    ticket_of,
)
from cronhare.domain.messages.nack_count import Nacks, was_overdelivered
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.crashes import Crash, CrashPolicy
from cronhare.domain.retries.redeliveries import Holder
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.topology import MOST_QUEUES
from cronhare.ports.attempts import Deferred, RedeliveryStorePort, Refused, StartRequest
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.errors import LedgerBusy, LedgerUnavailable
from cronhare.ports.records import Attempt
from cronhare.ports.runner import TaskRunnerPort
from cronhare.ports.system import NOT_TRACED, SILENT, MetricsPort, SpanKind, TracingPort

from ..log_limiter import LogLimiter
from ..logs import say
from ..publishing.execution_publisher import envelope, is_carried
from ..redelivery.delay import delay_count, redeliver_later
from ..redelivery.quarantine_message import FOREIGN_REFUSED, quarantine_message
from ..redelivery.waiting_room_sender import WaitingRoomSender
from .adopting import Adopter
from .attempt_runner import AttemptRunner
from .attempt_starter import AttemptStarter, Availability
from .leases import LeaseKeeper
from .ledger import Draining, WorkerLedger
from .own_waits import OwnWaits
from .places import Places
from .recording import Counters, End, GateOpener, Recorder
from .redelivered import Redelivered

log = logging.getLogger(__name__)

OVERDELIVERED_REASON = "it came back from its consumers more often than its queue allows"

#: Seconds that one of many attempts waits for others to be started with: an ack and the delivery
#: that follows it take less. And to be finished with: ends are spread, and each batch that is saved
#: leaves the machine two milliseconds for tasks.
LINGERS = (0.004, 0.02)


class DeliveryHandler:
    """Handles any number of deliveries at a time, each to its end."""

    def __init__(
        self,
        *,
        ledger: WorkerLedger,
        broker: AsyncBrokerPort,
        runner: TaskRunnerPort,
        catalog: Catalog,
        keeper: LeaseKeeper,
        policies: RetryPolicies,
        places: Places,
        random_fraction: Callable[[], float],
        uuid: Callable[[], UUID],
        retry_delay: timedelta,
        seal: Seal,
        redeliveries: RedeliveryStorePort,
        us: Holder,
        lives: Callable[[int], bool],
        crash_policy: CrashPolicy,
        in_memory: bool,
        read_again: Callable[[], Awaitable[None]],
        attempts_of: Callable[[int], Sequence[Attempt]],
        grace: timedelta,
        accepts_foreign: bool = True,
        foreign_queues: Collection[str] = (),
        lingers: tuple[float, float] = LINGERS,
        metrics: MetricsPort = SILENT,
        tracing: TracingPort = NOT_TRACED,
    ) -> None:
        """As many deliveries come at a time as there are *places*.

        *retry_delay* is how long a nacked message is away. *seal* signs our messages and verifies
        them. *us* is who takes them, and *lives* tells whether a PID of our own place is in use; by
        *crash_policy* one that ends its workers is told from one that was unlucky.
        *in_memory* says where the broker is. *accepts_foreign* tells whether those of others
        are run; *foreign_queues* are other programs'. *lingers* are seconds, see `LINGERS`.
        *read_again*, *attempts_of* and *grace* are for `AttemptRunner`.
        """
        self.counters = Counters()
        self._metrics = metrics
        self._tracing = tracing
        self._broker = broker
        self._keeper = keeper
        self._seal = seal
        self._trip = retry_delay
        self._accepts_foreign = accepts_foreign
        self._in_progress: set[AttemptRef] = set()
        self._retry = ledger.retry
        self._monotonic = ledger.clock.monotonic
        self._deferrals = LogLimiter(most=MOST_QUEUES)
        self._waiting_room = WaitingRoomSender(broker, ledger.clock.monotonic)
        self._adopter = Adopter(
            ledger=ledger,
            broker=broker,
            waiting_room=self._waiting_room,
            uuid=uuid,
            seal=seal,
            tracing=tracing,
        )
        self._redelivered = Redelivered(
            ledger=ledger, store=redeliveries, us=us, policy=crash_policy, lives=lives
        )
        self._gates = GateOpener(ledger, broker, seal, foreign_queues=foreign_queues)
        to_start, to_finish = lingers
        self._places = places
        self._availability = Availability(ledger.clock.monotonic, places=places.shared)
        self._starter = AttemptStarter(
            ledger,
            keeper,
            self._availability,
            limits=lambda: policies.limits,
            linger=to_start,
        )
        self._runner = AttemptRunner(
            ledger=ledger,
            runner=runner,
            catalog=catalog,
            keeper=keeper,
            policies=policies,
            random_fraction=random_fraction,
            own_waits=OwnWaits(runner=runner),
            tracing=tracing,
            read_again=read_again,
            attempts_of=attempts_of,
            grace=grace,
        )
        self._recorder = Recorder(
            ledger=ledger,
            broker=broker,
            keeper=keeper,
            policies=policies,
            seal=seal,
            linger=to_finish,
            in_memory=in_memory,
            count=self.counters.count,
            metrics=metrics,
            tracing=tracing,
            gates=self._gates,
        )

    @property
    def running(self) -> frozenset[int]:
        """The executions that this worker has begun and not finished."""
        return self._keeper.held

    @property
    def pending_ends(self) -> int:
        """How many ends wait for the ledger, without a place."""
        return len(self._recorder)

    async def settled(self) -> None:
        """Wait until no end is pending, and what waited for one goes on."""
        await self._recorder.settled()
        await self._gates.settled()

    def drain(self) -> None:
        """From now on give back what has not begun; what stays alive is asked to end."""
        self._retry.drain()
        self._redelivered.drain()
        self._runner.wind_down()

    def interrupt(self) -> None:
        """Stop what runs; an attempt that begins from now on ends before it is run."""
        self._runner.interrupt()

    async def handle(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; it is settled then, whatever happened."""
        parent = delivery.message.headers.get(TRACE_HEADER)
        kind = SpanKind.CONSUMER
        with self._tracing.span("delivery", parent=parent, kind=kind, queue=delivery.queue):
            await self._bring_to_its_end(delivery)

    async def _bring_to_its_end(self, delivery: Delivery) -> None:
        is_apart = delivery.queue in self._places.apart
        if not is_apart:  # it takes no place of the others: those may be free
            self._availability.take()
        try:
            try:
                await self._handle(delivery)
            finally:  # before it is given back: the next one would count us as dead
                await self._redelivered.let_go(delivery)
        except (Draining, LedgerUnavailable):
            await self._broker.nack(delivery, requeue=True)
        except Exception as fault:
            # Unsettled, it would keep a place of the prefetch for ever. The lease of what had begun
            # lapses, and the reconciler decides.
            text = "A delivery met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await self._quarantine(delivery, f"{text}: {fault!r}")
        finally:
            if not is_apart:
                self._availability.release()

    async def _handle(self, delivery: Delivery) -> None:
        message = delivery.message
        if pill := await self._redelivered.take(delivery):
            await self._quarantine_pill(delivery, pill)
            return
        if delivery.defect is not None:
            await self._quarantine(delivery, delivery.defect.reason)
            return
        if was_overdelivered(message.headers):
            await self._set_aside(delivery)
            return
        match read(message.body, message.headers, self._seal):
            case Unreadable(reason):
                await self._quarantine(delivery, reason)
            case IncomingTask(ticket=AttemptRef() as ticket) as call:
                await self._handle_ours(
                    delivery, ticket, Nacks(by_queue=call.nacks, trip=self._trip)
                )
            case IncomingTask() as call:
                await self._handle_foreign(delivery, call)

    async def _set_aside(self, delivery: Delivery) -> None:
        """Settle a copy of what met the broker's limit, and is in quarantine.

        Headers can be forged: of a run of ours this copy alone is dropped, and the ledger sends
        another.
        """
        if ticket_of(delivery.message.headers) is not None:
            await self._fence_off(delivery, OVERDELIVERED_REASON)
        else:
            await self._quarantine(delivery, OVERDELIVERED_REASON)

    async def _quarantine_pill(self, delivery: Delivery, crashes: tuple[Crash, ...]) -> None:
        """Quarantine what ends its workers before it is begun, and read no more of it than that."""
        message = delivery.message
        ticket = ticket_of(message.headers)
        if ticket is None or fault_of_seal(message.body, message.headers, self._seal):
            await self._quarantine(delivery, f"it {self._redelivered.reason(crashes)}")
            return
        await self._handle_ours(delivery, ticket, Nacks(by_queue={}, trip=self._trip), crashes)

    async def _handle_foreign(self, delivery: Delivery, call: IncomingTask) -> None:
        """Adopt a message of another program, and ack it at once: it may come again until then."""
        if not self._accepts_foreign:
            await self._quarantine(delivery, FOREIGN_REFUSED)
            return
        returned = delay_count(delivery.message.headers) > 0
        with suppress(LedgerBusy):
            refused = await self._adopter.take(delivery, call, returned=returned)
            if refused is not None:
                await self._quarantine(delivery, refused.reason)
            else:
                self.counters.adopted += 1
                await self._broker.ack(delivery)

    async def _handle_ours(
        self,
        delivery: Delivery,
        ticket: AttemptRef,
        nacks: Nacks,
        crashes: tuple[Crash, ...] = (),
    ) -> None:
        """Run the attempt of a ticket, unless a copy of the message is at hand.

        The ledger would let both begin, because a start may be repeated.
        """
        if ticket in self._in_progress or self._recorder.has_pending(ticket):
            await self._fence_off(delivery, "a copy of its message is at hand")
            return
        self._in_progress.add(ticket)
        try:
            await self._begin(delivery, ticket, nacks, crashes)
        finally:
            self._in_progress.discard(ticket)

    async def _begin(
        self, delivery: Delivery, ticket: AttemptRef, nacks: Nacks, crashes: tuple[Crash, ...]
    ) -> None:
        request = StartRequest(
            execution_id=ticket.execution_id, attempt=ticket.attempt, nacks=nacks
        )
        returned = delay_count(delivery.message.headers) > 0
        try:
            answer, asked_at = await self._starter.start(request, returned=returned)
        except LedgerBusy as busy:
            await redeliver_later(self._broker, delivery, ticket, str(busy))
            return
        match answer:
            case Refused(reason, unknown=True):
                await self._quarantine(delivery, reason)
            case Refused(reason, gate=str(gate)):
                await self._hold_back(delivery, reason, gate)
            case Refused(reason):
                await self._fence_off(delivery, reason)
            case Deferred(execution=execution, at=at):
                await self._defer(delivery, execution, at)
            case Execution() as execution:
                self._keeper.hold(execution, since=asked_at)
                self._metrics.started(execution)
                try:
                    # From here on the ledger knows of a crash by the lease.
                    await self._redelivered.let_go(delivery)
                    await self._recorder.record(
                        await self._run(execution, delivery, ticket, crashes)
                    )
                except BaseException:
                    self._keeper.release(execution)
                    raise
                await self._broker.ack(delivery)

    async def _run(
        self,
        execution: Execution,
        delivery: Delivery,
        ticket: AttemptRef,
        crashes: tuple[Crash, ...],
    ) -> End:
        if not crashes:
            return await self._runner.run(execution, delivery, ticket)
        why = Quarantine(self._redelivered.reason(crashes), crashes)
        return await self._runner.quarantine(execution, delivery, ticket, why)

    async def _fence_off(self, delivery: Delivery, reason: str) -> None:
        self.counters.fenced += 1
        self._metrics.fenced()
        say(log, logging.DEBUG, "attempt.fenced", f"Not started again: {reason}")
        await self._broker.ack(delivery)

    async def _defer(self, delivery: Delivery, execution: Execution, at: datetime) -> None:
        """Send a retry that waits for its place anew, if the lanes reach so far."""
        self.counters.deferred += 1
        if self._deferrals.is_due(execution.queue, self._monotonic()):
            place = say_moment(execution.next_attempt_at or at)
            text = (
                f"An outage held up retries: they start as the retry budget of queue "
                f"{execution.queue} has places, the next at {place}"
            )
            say(log, logging.WARNING, "retry.spread", text, queue=execution.queue)
        if is_carried(execution, now=at):  # or the reconciler finds it when it is due
            await self._broker.publish(envelope(execution, now=at, seal=self._seal))
        await self._broker.ack(delivery)

    async def _hold_back(self, delivery: Delivery, reason: str, gate: str) -> None:
        """Ack a message whose execution waits in the ledger now; its turn may have come since."""
        self.counters.held += 1
        say(log, logging.DEBUG, "attempt.held", f"Not started now: {reason}")
        await self._broker.ack(delivery)
        self._gates.open([gate])

    async def _quarantine(self, delivery: Delivery, reason: str) -> None:
        self.counters.parked += 1
        self._metrics.quarantined()
        await quarantine_message(self._broker, delivery, reason)
