"""Messages of somebody else: each gets a row of the ledger, and a message of our own in its place.

Theirs is acked at once. What is lost with a channel in between comes again, and is adopted again
unless it has an id: that window is as long as one write and one publish, and not as a task.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

import msgspec

from cronhare.domain.execution import Execution, State
from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import IncomingTask
from cronhare.domain.messages.nack_count import total_nacks
from cronhare.domain.messages.signing import Seal
from cronhare.domain.schedules.keys import manual_key
from cronhare.domain.topology import ToQueue
from cronhare.ports.attempts import AttemptStorePort, Busy, Refused
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.ledger import LedgerBusy, LedgerUnavailable

from ..logs import say
from ..publishing.execution_publisher import envelope
from ..redelivery.delay import delay_count, without_delay_count
from ..redelivery.waiting_room_sender import WaitingRoomSender
from .ledger_retry import Draining, Kind, LedgerRetry

log = logging.getLogger(__name__)

T = TypeVar("T")


class Adopter:
    """Makes messages of somebody else ours."""

    def __init__(
        self,
        *,
        node: str,
        broker: AsyncBrokerPort,
        waiting_room: WaitingRoomSender,
        attempts: AttemptStorePort,
        claims: ClaimStorePort,
        clock: ClockPort,
        executor: Executor,
        ledger_retry: LedgerRetry,
        uuid: Callable[[], UUID],
        seal: Seal,
    ) -> None:
        """*executor* has the threads for the ledger; *ledger_retry* says how long it is asked."""
        self._node = node
        self._broker = broker
        self._waiting_room = waiting_room
        self._attempts = attempts
        self._claims = claims
        self._clock = clock
        self._executor = executor
        self._ledger_retry = ledger_retry
        self._uuid = uuid
        self._seal = seal
        self._kind = Kind()

    async def take(
        self, delivery: Delivery, call: IncomingTask, looks: Iterator[float]
    ) -> Refused | None:
        """Take a message over; answers why it cannot be, or None once it is to be acked.

        *looks* says how long what somebody holds is looked for.

        Raises:
            Draining: it is to be given back as it is.
            LedgerBusy: it was deferred.
        """
        name, asked = self.name_of(delivery), asyncio.Event()
        try:
            adopted = await self._ledger_retry.to_begin(
                lambda: self._adopt(delivery, call, name, asked), looks=looks, kind=self._kind
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
            _tell_of_copy(delivery, adopted)
        return None

    def name_of(self, delivery: Delivery) -> str:
        """Give the id under which the ledger knows a message, a new one if it has none."""
        return delivery.message.id or str(self._uuid())

    async def _adopt(
        self, delivery: Delivery, call: IncomingTask, name: str, asked: asyncio.Event
    ) -> Execution | Refused:
        asked.set()
        adopted = await self._in_thread(
            lambda: self._attempts.adopt(
                call.task,
                key=manual_key(uuid5(NAMESPACE_OID, name)),
                queue=delivery.queue,
                deaths=total_nacks(call.nacks),
                now=self._clock.now(),  # in the thread: it may ask the ledger
                node=self._node,
            )
        )
        if isinstance(adopted, Busy):
            raise LedgerBusy(_held(call.task.scheduler_id))
        return adopted

    async def _publish(self, adopted: Execution, delivery: Delivery) -> None:
        """Publish our own message. What is in doubt is the reconciler's to send again."""
        now = await self._in_thread(self._clock.now)
        ours = envelope(adopted, now=now, seal=self._seal)
        headers = {**_theirs(delivery.message.headers), **ours.message.headers}
        message = msgspec.structs.replace(ours.message, headers=headers)
        if await self._broker.publish(Envelope(message, ours.to)) is Published.CONFIRMED:
            with suppress(LedgerUnavailable):  # then it is sent once more, and fenced
                await self._in_thread(partial(self._claims.mark_published, [adopted], now=now))

    async def _is_renamed(self, delivery: Delivery, name: str) -> bool:
        """Give a message back under the id that the ledger may have heard, if it has none."""
        message = delivery.message
        if message.id is not None:
            return False
        renamed = msgspec.structs.replace(message, id=name, headers=_theirs(message.headers))
        published = await self._broker.publish(Envelope(renamed, ToQueue(delivery.queue)))
        return published is Published.CONFIRMED

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, ask)


def _theirs(headers: Mapping[str, object]) -> dict[str, object]:
    """Pick the headers of their own making: a broker's never go back to it (ADR 7)."""
    theirs = without_delay_count(headers)
    return kept_headers({name: theirs[name] for name in theirs if not name.startswith("x-")})


def _held(scheduler_id: int) -> str:
    return (
        f"a message for schedule {scheduler_id} waits, because somebody else keeps its executions "
        "locked: look in SHOW PROCESSLIST for a transaction that was left open"
    )


def _tell_of_copy(delivery: Delivery, adopted: Execution) -> None:
    """Tell that an id was seen before: no news if this very message was delivered before.

    Nor if it was put off, as a broker that ended meanwhile may have kept a copy of it.
    """
    text = (
        f"Not run: message {delivery.message.id} of {delivery.queue} has the id of an earlier one, "
        f"execution {adopted.id} ({adopted.state}). If it was to run, each message needs an id of "
        "its own, or none"
    )
    is_ours = delivery.redelivered or delay_count(delivery.message.headers) > 0
    level = logging.DEBUG if is_ours else logging.WARNING
    say(log, level, "message.repeated", text)
