"""Messages of other programs: each gets a row of the ledger, and a message of our own.

Theirs is acked at once. If the channel is lost before that, it comes again, and is adopted twice
unless it has an id. That window is one write and one publish long, not a whole task. What cannot
be adopted now rests in the waiting queue, as no reconciler could send it again.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

import attrs
import msgspec

from cronhare.domain.diagnosis.starting import serve_missing
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import IncomingTask, Unreadable, read
from cronhare.domain.messages.nack_count import total_nacks, was_overdelivered
from cronhare.domain.messages.signing import Seal
from cronhare.domain.retries.crashes import Crash, CrashPolicy
from cronhare.domain.retries.redeliveries import Holder, crashes_of
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MOST_QUEUES,
    WAITING_QUEUE,
    ToQueue,
    checked_queue,
    is_ours,
)
from cronhare.ports import LedgerBusy, LedgerRefused, LedgerUnavailable
from cronhare.ports.attempts import Busy, RedeliveryStorePort, Refused
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published
from cronhare.ports.system import NOT_TRACED, TracingPort

from ..log_limiter import LogLimiter
from ..logs import say
from ..publishing.execution_publisher import envelope
from .ledger import WorkerLedger, lock_wait
from .unhandled import (
    DEFERRED_FOR,
    WAITS_FOR_HEADER,
    copied,
    defer,
    publisher_headers,
    quarantine_message,
    rest,
    was_put_off,
)

log = logging.getLogger(__name__)

OVERDELIVERED_REASON: Final = "it came back from its consumers more often than its queue allows"

#: Why a message of another program is parked where only ours are accepted.
FOREIGN_REFUSED: Final = (
    "it has none of our headers, and messages of others are refused (CRON_FOREIGN_MESSAGES)"
)


@attrs.define(kw_only=True, eq=False)
class Adopter:
    """Makes messages of other programs ours. *uuid* makes ids for those that have none."""

    _ledger: WorkerLedger
    _broker: AsyncBrokerPort
    _uuid: Callable[[], UUID]
    _seal: Seal
    _accepts_foreign: bool = True
    _tracing: TracingPort = NOT_TRACED

    async def take(self, delivery: Delivery) -> str | None:
        """Adopt a message; answers why it is to be parked, or None once it is to be acked.

        Raises:
            Draining: the message is to be given back as it is.
            LedgerBusy: it is settled, and a copy rests.
        """
        if delivery.defect is not None:
            return delivery.defect.reason
        if was_overdelivered(delivery.message.headers):
            return OVERDELIVERED_REASON
        call = read(delivery.message.body, delivery.message.headers, self._seal)
        if isinstance(call, Unreadable):
            return call.reason
        if not self._accepts_foreign:
            return FOREIGN_REFUSED
        return await self._adopt(delivery, call, name=delivery.message.id or str(self._uuid()))

    async def _adopt(self, delivery: Delivery, call: IncomingTask, *, name: str) -> str | None:
        """Adopt a message, which the ledger knows by its *name*."""
        ledger = self._ledger

        def adopt() -> Execution | Refused:
            adopted = ledger.attempts.adopt(
                call.task,
                key=manual_key(uuid5(NAMESPACE_OID, name)),
                queue=delivery.queue,
                deaths=total_nacks(call.nacks),
                now=ledger.clock.now(),  # in the thread: it may ask the ledger
                node=ledger.node,
            )
            if isinstance(adopted, Busy):
                what = f"a message for schedule {call.task.scheduler_id}"
                raise LedgerBusy(lock_wait(what, "its executions"))
            return adopted

        try:
            adopted = await ledger.retry.to_begin(
                lambda: ledger.in_thread(adopt), returned=was_put_off(delivery)
            )
        except LedgerBusy as busy:
            await defer(self._broker, delivery, str(busy), id_=name)
            raise
        if isinstance(adopted, Refused):
            return adopted.reason
        if adopted.state is State.CLAIMED:
            await self._publish(adopted, delivery)
        else:
            _log_copy(delivery, adopted)
        return None

    async def _publish(self, adopted: Execution, delivery: Delivery) -> None:
        """Publish our own message. If that is in doubt, the reconciler sends it again."""
        now = await self._ledger.now()
        ours = envelope(adopted, now=now, seal=self._seal, trace=self._tracing.current())
        headers = {
            **kept_headers(publisher_headers(delivery.message.headers)),
            **ours.message.headers,
        }
        message = msgspec.structs.replace(ours.message, headers=headers)
        if await self._broker.publish(Envelope(message, ours.to)) is Published.CONFIRMED:
            mark = partial(self._ledger.claims.mark_published, [adopted], now=now)
            with suppress(LedgerUnavailable):  # then it is sent once more, and fenced
                await self._ledger.in_thread(mark)


def _log_copy(delivery: Delivery, adopted: Execution) -> None:
    """Log that an id was seen before: at DEBUG if this may be a copy of the same message."""
    text = (
        f"Not run: message {delivery.message.id} of {delivery.queue} has the id of an earlier one, "
        f"execution {adopted.id} ({adopted.state}). If it was to run, each message needs an id of "
        "its own, or none"
    )
    may_be_the_same = delivery.redelivered or was_put_off(delivery)
    level = logging.DEBUG if may_be_the_same else logging.WARNING
    say(log, level, "message.repeated", text)


#: Seconds that the turn of one message lasts at most: who has it for so long does not die of it,
#: but waits for the ledger; and others must not wait with it.
LONGEST_TURN = 1.0


@attrs.define(kw_only=True, eq=False)
class Notes:
    """Notes of messages that came again, so that one that ends its workers is not read (ADR 14).

    They are taken one by one, each until it is settled, or for a second. So the note that a worker
    leaves as it dies is of the one that ended it, and of no neighbour. Without the ledger nothing
    is noted, and nothing held against a message. *lives* tells whether a PID of our own place is in
    use.
    """

    _ledger: WorkerLedger
    _store: RedeliveryStorePort
    _us: Holder
    _policy: CrashPolicy
    _lives: Callable[[int], bool]
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)
    _is_draining: bool = attrs.field(init=False, default=False)

    def drain(self) -> None:
        """From now on note nothing: it is given back, and a note might not be taken back."""
        self._is_draining = True

    @asynccontextmanager
    async def noted(self, delivery: Delivery) -> AsyncIterator[str | None]:
        """Note a message while it is in hand; answers why it is to be parked unread, if it is."""
        if not delivery.redelivered:
            yield None
            return
        answer, over = asyncio.get_running_loop().create_future(), asyncio.Event()
        turn = asyncio.create_task(self._take_turn(_name_of(delivery), answer, over))
        try:
            yield self._reason(await answer)
        finally:  # before it is given back: the next one would count us as dead
            over.set()
            await turn

    async def _take_turn(
        self, name: str, answer: "asyncio.Future[Sequence[Crash]]", over: asyncio.Event
    ) -> None:
        async with self._turn:
            if self._is_draining:
                answer.set_result(())
                return
            note = asyncio.create_task(self._note(name, answer, over))
            await asyncio.wait({note}, timeout=LONGEST_TURN)
            over.set()
        await note

    async def _note(
        self, name: str, answer: "asyncio.Future[Sequence[Crash]]", over: asyncio.Event
    ) -> None:
        def hold() -> Sequence[Crash]:
            now = self._ledger.clock.now()
            holds = self._store.hold(name, holder=self._us, now=now)
            return crashes_of(holds, us=self._us, now=now, policy=self._policy, lives=self._lives)

        crashes: Sequence[Crash] = ()
        try:
            with suppress(LedgerUnavailable, LedgerRefused):
                crashes = await self._ledger.in_thread(hold)
        finally:
            if not answer.done():
                answer.set_result(crashes)
        await over.wait()
        let_go: Any = partial(self._store.let_go, name, node=self._us.node)
        with suppress(LedgerUnavailable, LedgerRefused):
            await self._ledger.in_thread(let_go)

    def _reason(self, crashes: Sequence[Crash]) -> str | None:
        if len(crashes) < self._policy.limit:
            return None
        window = f"{self._policy.window.total_seconds():g} s"
        times = counted(len(crashes), "time")
        return f"it ended its worker {times} within {window}, before a run had begun"


def _name_of(delivery: Delivery) -> str:
    """Name a message: by its id, or by its body where it has none."""
    message = delivery.message
    content = message.body if message.id is None else message.id.encode(errors="replace")
    return sha256(delivery.queue.encode(errors="replace") + b"\0" + content).hexdigest()


#: So many messages rest in one worker, beside those that it runs.
PLACES: Final = 100

_OR_DECLARE: Final = ", or declare the queue and take out of it what nobody needs"


@attrs.define(eq=False)
class WaitingRoom:
    """Lets deliveries of the waiting queue rest, and sends them back to their queues.

    One rests unacked in a worker, and is acked once its own queue has a copy. So each step is at
    least once, which a dead letter is not. *broker* is what they come from, at most `PLACES` at a
    time; *in_memory* says where it is. *sleep* waits for so many seconds, *monotonic* counts them.
    """

    _broker: AsyncBrokerPort
    _in_memory: bool = attrs.field(kw_only=True)
    _sleep: Callable[[float], Awaitable[object]] = attrs.field(kw_only=True, default=asyncio.sleep)
    _monotonic: Callable[[], float] = attrs.field(kw_only=True, default=time.monotonic)
    _drained: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    _missing: LogLimiter = attrs.field(init=False, factory=partial(LogLimiter, most=MOST_QUEUES))

    def drain(self) -> None:
        """Give back what rests at once, and from now on all that comes."""
        self._drained.set()

    async def handle(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; it is settled then, whatever happened."""
        try:
            queue = delivery.message.headers.get(WAITS_FOR_HEADER)
            if delivery.defect is not None:
                await quarantine_message(self._broker, delivery, delivery.defect.reason)
            elif not isinstance(queue, str):
                reason = f"it names no queue that it waits for, in its header {WAITS_FOR_HEADER}"
                await quarantine_message(self._broker, delivery, reason)
            elif fault := _fault_of(queue):
                await quarantine_message(self._broker, delivery, f"it cannot go back: {fault}")
            elif await self._has_rested():
                await self._send_back(delivery, queue)
            else:
                await self._broker.nack(delivery, requeue=True)
        except Exception as fault:
            # Unsettled, it would keep its place for ever.
            text = "A message that waits met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await quarantine_message(self._broker, delivery, f"{text}: {fault!r}")

    async def _has_rested(self) -> bool:
        """Let it rest; answers False after `drain`."""
        if not self._drained.is_set():
            rested = asyncio.ensure_future(self._sleep(DEFERRED_FOR.total_seconds()))
            drained = asyncio.ensure_future(self._drained.wait())
            await asyncio.wait({rested, drained}, return_when=asyncio.FIRST_COMPLETED)
            rested.cancel()
            drained.cancel()
        return not self._drained.is_set()

    async def _send_back(self, delivery: Delivery, queue: str) -> None:
        """Publish it to its queue. If that does not take it, it waits anew, behind the others."""
        published = await self._broker.publish(Envelope(copied(delivery), ToQueue(queue)))
        if published is Published.CONFIRMED:
            self._missing.reset(queue)
            await self._broker.ack(delivery)
            return
        if published is Published.RETURNED and self._missing.is_due(queue, self._monotonic()):
            text = (
                f"There is no queue {shown(queue)}, from which messages of others were put off. "
                f"They wait in {WAITING_QUEUE} until there is: "
                f"{serve_missing(shown(queue), in_memory=self._in_memory)}"
                f"{'' if self._in_memory else _OR_DECLARE}"
            )
            say(log, logging.ERROR, "publish.returned", text)
        if self._drained.is_set():
            await self._broker.nack(delivery, requeue=True)
        else:
            await rest(self._broker, delivery, queue=queue)


def _fault_of(queue: str) -> str | None:
    """Say why nothing is sent to a queue: of our own only the failed queue is served."""
    if queue == FAILED_QUEUE:
        return None
    if is_ours(queue):
        return f"{shown(queue)} is one of the system's own queues"
    try:
        checked_queue(queue)
    except ValueError as error:
        return str(error)
    return None
