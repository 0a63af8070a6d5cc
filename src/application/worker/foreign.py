"""Messages of other programs: each gets a row of the ledger, and a message of our own.

Theirs is acked at once. If the channel is lost before that, it comes again, and is adopted twice
unless it has an id. That window is one write and one publish long, not a whole task. What cannot
be adopted now is deferred, as no reconciler could send it again. The failed queue is no storage:
what comes there is logged, and archived before it is acked (S0.7 and C9 in docs/compatibility.md).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import attrs
import msgspec

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle.archive import Archived, Failure, Unproven, read_failed
from cronhare.domain.messages import (
    MOST_NACKS,
    AttemptRef,
    Signer,
    Unreadable,
    kept_headers,
    nacks_of,
    read,
    was_overdelivered,
)
from cronhare.domain.retries.outcome import Crash
from cronhare.domain.retries.retry import crashes_of
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerBusy, LedgerRefused, LedgerUnavailable
from cronhare.ports.attempts import Busy, Refused
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope
from cronhare.ports.records import RecordsPort

from ..logs import say
from ..publish import envelope
from .ledger import Draining, WorkerLedger, WorkerParts, lock_wait
from .unhandled import (
    defer,
    publisher_headers,
    quarantine_message,
    was_put_off,
)

log = logging.getLogger(__name__)

OVERDELIVERED_REASON: Final = "it came back from its consumers more often than its queue allows"

#: Why a message of another program is parked where only ours are accepted.
FOREIGN_REFUSED: Final = (
    "it has none of our headers, and messages of others are refused (CRON_FOREIGN_MESSAGES)"
)


async def adopt(worker: WorkerParts, delivery: Delivery) -> str | None:
    """Make a message of another program ours; None once it is to be acked.

    Otherwise the answer is why it is to be parked.

    Raises:
        Draining: the message is to be given back as it is.
        LedgerBusy: it is settled, and a copy rests.
    """
    if delivery.defect is not None:
        return delivery.defect.reason
    if was_overdelivered(delivery.message.headers):
        return OVERDELIVERED_REASON
    task = read(delivery.message.body, delivery.message.headers, worker.signer)
    if isinstance(task, Unreadable):
        return task.reason
    if not worker.accepts_foreign:
        return FOREIGN_REFUSED
    ledger, name = worker.ledger, delivery.message.id or str(worker.uuid())

    def ask() -> Execution | Refused:
        adopted = ledger.attempts.adopt(
            task,
            key=manual_key(uuid5(NAMESPACE_OID, name)),
            queue=delivery.queue,
            deaths=min(sum(nacks_of(delivery.message.headers).values()), MOST_NACKS),
            now=ledger.clock.now(),  # in the thread: it may ask the ledger
            node=ledger.node,
        )
        if isinstance(adopted, Busy):
            what = f"a message for schedule {task.scheduler_id}"
            raise LedgerBusy(lock_wait(what, "its executions"))
        return adopted

    try:
        adopted = await ledger.retry.to_begin(
            lambda: ledger.in_thread(ask), returned=was_put_off(delivery)
        )
    except LedgerBusy as busy:
        await defer(worker.broker, delivery, str(busy), id_=name)
        raise
    if isinstance(adopted, Refused):
        return adopted.reason
    if adopted.state is not State.CLAIMED:
        _log_copy(delivery, adopted)
        return None
    trace, now = worker.tracing.current(), await ledger.now()
    ours = envelope(adopted, now=now, signer=worker.signer, trace=trace)
    theirs = kept_headers(publisher_headers(delivery.message.headers))
    message = msgspec.structs.replace(ours.message, headers={**theirs, **ours.message.headers})
    await worker.publish([(adopted, Envelope(message, ours.to))], now)
    return None


def _log_copy(delivery: Delivery, adopted: Execution) -> None:
    text = (
        f"Not run: message {delivery.message.id} of {delivery.queue} has the id of an earlier one, "
        f"execution {adopted.id} ({adopted.state}). If it was to run, each message needs an id of "
        "its own, or none"
    )
    may_be_the_same = delivery.redelivered or was_put_off(delivery)
    say(log, logging.DEBUG if may_be_the_same else logging.WARNING, "message.repeated", text)


@attrs.define(eq=False)
class Notes:
    """Notes of messages that came again, so that one that ends its workers is not read (ADR 14).

    They are taken one by one, each until it is settled. So the note that a worker leaves as it dies
    is of the one that ended it, and of no neighbour. Without the ledger nothing is noted, and
    nothing held against a message.
    """

    _worker: WorkerParts
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)
    _is_draining: bool = attrs.field(init=False, default=False)

    def drain(self) -> None:
        """From now on note nothing: a note might not be taken back."""
        self._is_draining = True

    @asynccontextmanager
    async def noted(self, delivery: Delivery) -> AsyncIterator[str | None]:
        """Note a message while it is in hand; answers why it is to be parked unread, if it is."""
        if not delivery.redelivered:
            yield None
            return
        async with self._turn:
            if self._is_draining:
                yield None
                return
            name, worker = _name_of(delivery), self._worker
            noting = asyncio.create_task(self._hold(name))
            try:
                yield self._reason(await asyncio.shield(noting))
            finally:  # before it is given back: the next one would count us as dead
                await asyncio.wait({noting})
                with suppress(LedgerUnavailable, LedgerRefused):
                    await worker.ledger.in_thread(
                        lambda: worker.redeliveries.let_go(name, node=worker.us.node)
                    )

    async def _hold(self, name: str) -> Sequence[Crash]:
        worker, clock = self._worker, self._worker.ledger.clock

        def hold() -> Sequence[Crash]:
            us, policy, now = worker.us, worker.crash_policy, clock.now()
            holds = worker.redeliveries.hold(name, holder=us, now=now)
            return crashes_of(holds, us=us, now=now, policy=policy, lives=worker.lives)

        with suppress(LedgerUnavailable, LedgerRefused):
            return await worker.ledger.in_thread(hold)
        return ()

    def _reason(self, crashes: Sequence[Crash]) -> str | None:
        policy = self._worker.crash_policy
        if len(crashes) < policy.limit:
            return None
        window, times = f"{policy.window.total_seconds():g} s", counted(len(crashes), "time")
        return f"it ended its worker {times} within {window}, before a run had begun"


def _name_of(delivery: Delivery) -> str:
    message = delivery.message
    content = message.body if message.id is None else message.id.encode(errors="replace")
    return sha256(delivery.queue.encode(errors="replace") + b"\0" + content).hexdigest()


#: It may come from another ledger, or from before this one was lost, as a task queue's may.
UNKNOWN = "the ledger knows no such execution of that schedule"


@attrs.define(kw_only=True, eq=False)
class FailedMonitor:
    """Logs each message of the failed queue, and acks it once it is in the archive.

    Our own failures are there before they are published; those of other workers are not. What
    cannot be read is parked, and so is a message about an execution that the ledger does not know.
    *signer* verifies our messages; *accepts_foreign* as for the worker.
    """

    _broker: AsyncBrokerPort
    _ledger: WorkerLedger
    _records: RecordsPort
    _signer: Signer
    _accepts_foreign: bool = True

    def drain(self) -> None:
        self._ledger.retry.drain()

    async def handle(self, delivery: Delivery) -> None:
        try:
            if (reason := await self._keep(delivery)) is not None:
                await quarantine_message(self._broker, delivery, reason)
            else:
                await self._broker.ack(delivery)
        except LedgerBusy as busy:  # the messages behind it do not wait for that
            # A copy needs no id: the archive knows a failure by its body.
            await defer(self._broker, delivery, str(busy))
        except Draining:
            await self._broker.nack(delivery, requeue=True)
        except Exception as fault:
            # Unsettled, it would keep all others from being seen.
            text = "A failed message met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await quarantine_message(self._broker, delivery, f"{text}: {fault!r}")

    async def _keep(self, delivery: Delivery) -> str | None:
        message, ledger = delivery.message, self._ledger
        if delivery.defect is not None:
            return delivery.defect.reason
        failure = read_failed(message.body, message.headers, self._signer)
        if isinstance(failure, Unreadable):
            return failure.reason
        if failure.ticket is None and not self._accepts_foreign:
            return FOREIGN_REFUSED

        def keep() -> Archived | Unproven | None:
            return self._records.keep_failure(failure, now=ledger.clock.now(), node=ledger.node)

        kept = await ledger.retry.to_begin(lambda: ledger.in_thread(keep))
        match kept:
            case Unproven(state=None):
                return UNKNOWN
            case Unproven(ticket, State() as state):
                _log_unproven(ticket, state)
            case Archived() | None:
                _log_failure(failure, message.body)
                if kept is not None:
                    text = (
                        f"It failed at a worker that is not ours; the archive has it as {kept.id}"
                    )
                    say(log, logging.INFO, "failed.kept", text)
        return None


def _log_failure(failure: Failure, body: bytes) -> None:
    message, ticket = failure.message, failure.ticket
    place: dict[str, Any] = {}
    if ticket is not None:
        place = {"execution": ticket.execution_id, "attempt": ticket.attempt}
    say(
        log,
        logging.ERROR,
        "failed",
        "⚠️ PERMANENTLY FAILED TASK",
        type=message.type,
        id=message.id,
        scheduler_id=message.scheduler_id,
        retry_count=message.retry_count,
        failed_at=message.failed_at,
        **place,
    )
    if log.isEnabledFor(logging.DEBUG):
        # A field that is not read may be in another encoding.
        details = msgspec.json.format(body, indent=0).decode(errors="backslashreplace")
        say(log, logging.DEBUG, "failed.details", f"Failed task details: {details}")


def _log_unproven(ticket: AttemptRef, state: State) -> None:
    hint = "A message can end nothing but what waits: find who publishes it"
    if state in STARTABLE:
        hint = (
            "If its publisher is a worker of another program, it is believed of the attempt that "
            "waits with CRON_MESSAGE_KEY set here, and heard of queues in CRON_FOREIGN_QUEUES"
        )
    text = (
        f"A message in the failed queue says that attempt {ticket.attempt} of execution "
        f"{ticket.execution_id} failed for good; the ledger has it as {state}, and nothing is "
        f"changed. {hint}"
    )
    say(log, logging.WARNING, "failed.unproven", text)
