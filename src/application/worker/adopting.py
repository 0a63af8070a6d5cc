"""Adopting messages of other programs: each gets a row of the ledger, and a message of our own.

Theirs is acked at once. If the channel is lost before that, it comes again, and is adopted twice
unless it has an id. That window is one write and one publish long, not a whole task.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from uuid import NAMESPACE_OID, UUID, uuid5

import attrs
import msgspec

from cronhare.domain.execution import Execution, State
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import IncomingTask
from cronhare.domain.messages.nack_count import total_nacks
from cronhare.domain.messages.signing import Seal
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.topology import ToQueue
from cronhare.ports.attempts import Busy, Refused
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published
from cronhare.ports.errors import LedgerBusy, LedgerUnavailable
from cronhare.ports.system import NOT_TRACED, TracingPort

from ..logs import say
from ..publishing.execution_publisher import envelope
from ..redelivery.delay import delay_count, without_delay_count
from ..redelivery.waiting_room_sender import WaitingRoomSender
from .ledger import Draining, WorkerLedger, lock_wait

log = logging.getLogger(__name__)


@attrs.define(kw_only=True, eq=False)
class Adopter:
    """Makes messages of other programs ours. *uuid* makes ids for those that have none."""

    _ledger: WorkerLedger
    _broker: AsyncBrokerPort
    _waiting_room: WaitingRoomSender
    _uuid: Callable[[], UUID]
    _seal: Seal
    _tracing: TracingPort = NOT_TRACED

    async def take(
        self, delivery: Delivery, call: IncomingTask, *, returned: bool
    ) -> Refused | None:
        """Adopt a message; answers why it cannot be, or None once it is to be acked.

        One that has *returned* from the waiting room is asked for once.

        Raises:
            Draining: the message is to be given back as it is.
            LedgerBusy: the message is in the waiting room.
        """
        name, asked = self.name_of(delivery), asyncio.Event()
        try:
            adopted = await self._ledger.retry.to_begin(
                lambda: self._adopt(delivery, call, name, asked), returned=returned
            )
        except LedgerBusy as busy:
            await self._waiting_room.defer(delivery, str(busy), id_=name)
            raise
        except Draining:
            if not asked.is_set() or not await self._is_renamed(delivery, name):
                raise
            return None
        if isinstance(adopted, Refused):
            return adopted
        if adopted.state is State.CLAIMED:
            await self._publish(adopted, delivery)
        else:
            _log_copy(delivery, adopted)
        return None

    def name_of(self, delivery: Delivery) -> str:
        """Give the id by which the ledger knows a message, a new one if it has none."""
        return delivery.message.id or str(self._uuid())

    async def _adopt(
        self, delivery: Delivery, call: IncomingTask, name: str, asked: asyncio.Event
    ) -> Execution | Refused:
        asked.set()
        adopted = await self._ledger.in_thread(
            lambda: self._ledger.attempts.adopt(
                call.task,
                key=manual_key(uuid5(NAMESPACE_OID, name)),
                queue=delivery.queue,
                deaths=total_nacks(call.nacks),
                now=self._ledger.clock.now(),  # in the thread: it may ask the ledger
                node=self._ledger.node,
            )
        )
        if isinstance(adopted, Busy):
            what = f"a message for schedule {call.task.scheduler_id}"
            raise LedgerBusy(lock_wait(what, "its executions"))
        return adopted

    async def _publish(self, adopted: Execution, delivery: Delivery) -> None:
        """Publish our own message. If that is in doubt, the reconciler sends it again."""
        now = await self._ledger.now()
        ours = envelope(adopted, now=now, seal=self._seal, trace=self._tracing.current())
        headers = {**_publisher_headers(delivery.message.headers), **ours.message.headers}
        message = msgspec.structs.replace(ours.message, headers=headers)
        if await self._broker.publish(Envelope(message, ours.to)) is Published.CONFIRMED:
            with suppress(LedgerUnavailable):  # then it is sent once more, and fenced
                await self._ledger.in_thread(
                    partial(self._ledger.claims.mark_published, [adopted], now=now)
                )

    async def _is_renamed(self, delivery: Delivery, name: str) -> bool:
        """Give a message without an id back under the id that the ledger may have recorded."""
        message = delivery.message
        if message.id is not None:
            return False
        renamed = msgspec.structs.replace(
            message, id=name, headers=_publisher_headers(message.headers)
        )
        published = await self._broker.publish(Envelope(renamed, ToQueue(delivery.queue)))
        return published is Published.CONFIRMED


def _publisher_headers(headers: Mapping[str, object]) -> dict[str, object]:
    """Pick the headers of the publisher: a broker's never go back to it (ADR 6)."""
    theirs = without_delay_count(headers)
    return kept_headers({name: theirs[name] for name in theirs if not name.startswith("x-")})


def _log_copy(delivery: Delivery, adopted: Execution) -> None:
    """Log that an id was seen before: at DEBUG if this may be a copy of the same message.

    It is redelivered then, or was put off, while a broker that ended may have kept a copy.
    """
    text = (
        f"Not run: message {delivery.message.id} of {delivery.queue} has the id of an earlier one, "
        f"execution {adopted.id} ({adopted.state}). If it was to run, each message needs an id of "
        "its own, or none"
    )
    may_be_the_same = delivery.redelivered or delay_count(delivery.message.headers) > 0
    level = logging.DEBUG if may_be_the_same else logging.WARNING
    say(log, level, "message.repeated", text)
