"""The failed-queue monitor: logs last failures, and archives them before it acks.

So the queue is no storage: S0.7 and C9 in docs/compatibility.md.
"""

import logging
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any

import attrs
import msgspec

from cronhare.domain.execution import STARTABLE, State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.failures import Failure, Unproven, read_failed
from cronhare.domain.messages.messages import AttemptRef, Unreadable
from cronhare.domain.messages.signing import Seal
from cronhare.ports import LedgerBusy, LedgerUnavailable
from cronhare.ports.broker import AsyncBrokerPort, Delivery
from cronhare.ports.records import RecordsPort
from cronhare.ports.system import ClockPort

from ..ledger_threads import LedgerThreads
from ..logs import say
from .foreign import FOREIGN_REFUSED
from .ledger import Draining, LedgerRetry
from .unhandled import defer, quarantine_message

log = logging.getLogger(__name__)

#: It may come from another ledger, or from before this one was lost, as a task queue's may.
UNKNOWN = "the ledger knows no such execution of that schedule"


@attrs.define(kw_only=True, eq=False)
class FailedMonitor:
    """Logs each message of the failed queue, and acks it once it is in the archive.

    Our own failures are there before they are published; those of other workers are not. What
    cannot be read is parked, and so is a message about an execution that the ledger does not know.

    *executor* has the threads for the ledger; *timeout* is the length of a lease; *seal* verifies
    our messages; *accepts_foreign* as for the worker.
    """

    _broker: AsyncBrokerPort
    _records: RecordsPort
    _clock: ClockPort
    _node: str
    _executor: Executor
    _timeout: timedelta
    _seal: Seal
    _accepts_foreign: bool = True
    _in_thread: LedgerThreads = attrs.field(init=False)
    _ledger_retry: LedgerRetry = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._in_thread = LedgerThreads(self._executor)
        self._ledger_retry = LedgerRetry(self._clock, timeout=self._timeout, is_up=self._is_up)

    def drain(self) -> None:
        """From now on give back what the ledger has not answered."""
        self._ledger_retry.drain()

    async def handle(self, delivery: Delivery) -> None:
        """Bring one message to its end; it is settled then, whatever happened."""
        try:
            await self._handle(delivery)
        except Draining:
            await self._broker.nack(delivery, requeue=True)
        except Exception as fault:
            # Unsettled, it would keep all others from being seen.
            text = "A failed message met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await quarantine_message(self._broker, delivery, f"{text}: {fault!r}")

    async def _handle(self, delivery: Delivery) -> None:
        message, defect = delivery.message, delivery.defect
        failure: Failure | Unreadable
        if defect is not None:
            failure = Unreadable(defect.reason)
        else:
            failure = read_failed(message.body, message.headers, self._seal)
        if isinstance(failure, Unreadable):
            await quarantine_message(self._broker, delivery, failure.reason)
            return
        if failure.ticket is None and not self._accepts_foreign:
            await quarantine_message(self._broker, delivery, FOREIGN_REFUSED)
            return

        def keep() -> Archived | Unproven | None:
            return self._records.keep_failure(failure, now=self._clock.now(), node=self._node)

        try:
            kept = await self._ledger_retry.to_begin(lambda: self._in_thread(keep))
        except LedgerBusy as busy:  # the messages behind it do not wait for that
            # A copy needs no id: the archive knows a failure by its body.
            await defer(self._broker, delivery, str(busy))
            return
        match kept:
            case Unproven(state=None):
                await quarantine_message(self._broker, delivery, UNKNOWN)
                return
            case Unproven(ticket, State() as state):
                _log_unproven(ticket, state)
            case Archived() | None:
                _log_failure(failure, message.body)
                if kept is not None:
                    text = (
                        f"It failed at a worker that is not ours; the archive has it as {kept.id}"
                    )
                    say(log, logging.INFO, "failed.kept", text)
        await self._broker.ack(delivery)

    async def _is_up(self) -> bool:
        try:
            await self._in_thread(self._records.last_claim)
        except LedgerUnavailable:
            return False
        return True


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
