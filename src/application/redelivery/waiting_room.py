"""The waiting room: brings waiting messages back to the queues that they came from.

A message rests unacked in a worker, and is acked once its own queue has a copy. So each step is at
least once, which a dead letter is not.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from cronhare.domain.diagnosis.starting import serve_missing
from cronhare.domain.retries.backoff import exponential
from cronhare.domain.texts.echo import shown
from cronhare.domain.topology import (
    FAILED_QUEUE,
    MOST_QUEUES,
    WAITING_QUEUE,
    ToQueue,
    checked_queue,
    is_ours,
)
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published

from ..log_limiter import LogLimiter
from ..logs import say
from . import delay
from .delay import LONGEST_DELAY, copy_headers, delay_count
from .quarantine_message import quarantine_message
from .queue_backoff import FIRST_PAUSE, QueueBackoff
from .waiting_room_sender import WAITS_FOR_HEADER, send_to_waiting_room, without_origin

log = logging.getLogger(__name__)

#: So many rest in one worker, beside those that it runs.
PLACES: Final = 100

#: The longest rest while all places are taken, as others may wait for one. If it were shorter,
#: hundreds that one locked gap holds up would take the places in which others ask the ledger.
LONGEST_IN_A_CROWD: Final = 4.0

#: The longest rest if most places are taken, and its queue took nothing a moment ago.
LONGEST_IN_VAIN: Final = 0.5

_OR_DECLARE: Final = ", or declare the queue and take out of it what nobody needs"


class WaitingRoom:
    """Lets deliveries of the waiting queue rest, and sends them back."""

    def __init__(
        self,
        broker: AsyncBrokerPort,
        *,
        in_memory: bool,
        places: int = PLACES,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*broker* is what the deliveries come from, at most *places* at a time.

        *in_memory* says where it is.
        *sleep* waits for so many seconds, *monotonic* counts them.
        """
        self._broker = broker
        self._in_memory = in_memory
        self._places = places
        self._sleep = sleep
        self._monotonic = monotonic
        self._is_drained = False
        self._in_hand = 0
        self._leaves = set[asyncio.Event]()  # one for each that rests
        self._may_leave = dict[asyncio.Event, None]()  # oldest first
        self._missing = LogLimiter(most=MOST_QUEUES)
        self._backoff = QueueBackoff(
            most=MOST_QUEUES,
            longest=LONGEST_DELAY.total_seconds(),
            remembered_for=LONGEST_IN_A_CROWD,
        )

    def drain(self) -> None:
        """Give back what rests at once, and from now on all that comes."""
        self._is_drained = True
        for leave in self._leaves:
            leave.set()

    async def handle(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; it is settled then, whatever happened."""
        self._in_hand += 1
        try:
            await self._handle(delivery)
        except Exception as fault:
            # Unsettled, it would keep its place for ever.
            text = "A message that waits met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await quarantine_message(self._broker, delivery, f"{text}: {fault!r}")
        finally:
            self._in_hand -= 1

    async def _handle(self, delivery: Delivery) -> None:
        if delivery.defect is not None:
            await quarantine_message(self._broker, delivery, delivery.defect.reason)
            return
        queue = delivery.message.headers.get(WAITS_FOR_HEADER)
        if not isinstance(queue, str):
            reason = f"it names no queue that it waits for, in its header {WAITS_FOR_HEADER}"
            await quarantine_message(self._broker, delivery, reason)
        elif fault := _fault_of(queue):
            await quarantine_message(self._broker, delivery, f"it cannot go back: {fault}")
        elif await self._has_rested(delivery, queue):
            await self._send_back(delivery, queue)
        else:
            await self._broker.nack(delivery, requeue=True)

    async def _send_back(self, delivery: Delivery, queue: str) -> None:
        """Publish it to its queue. If that does not take it, it waits anew, behind the others."""
        times = delay_count(delivery.message.headers)
        published = await self._publish(delivery, queue, times=times)
        if published is Published.CONFIRMED:
            self._missing.reset(queue)
            self._backoff.reset(queue)
            await self._broker.ack(delivery)
            return
        if published is Published.RETURNED:
            self._log_missing(queue)
        if published is not Published.UNKNOWN:  # which may be the fault of a queue beside it
            times += 1
        if not await send_to_waiting_room(self._broker, delivery, queue, times=times):
            await self._give_back(delivery)
            return
        if published is not None:
            timed_out = published is Published.UNKNOWN  # the broker has just answered for another
            self._backoff.record_failure(queue, self._monotonic(), timed_out=timed_out)
        await self._broker.ack(delivery)

    async def _publish(self, delivery: Delivery, queue: str, *, times: int) -> Published | None:
        """Publish to a queue; None if that is paused."""
        if self._backoff.is_paused(queue, self._monotonic()):
            return None
        headers = without_origin(copy_headers(delivery, times=times))
        back = msgspec.structs.replace(delivery.message, headers=headers)
        return await self._broker.publish(Envelope(back, ToQueue(queue)))

    async def _give_back(self, delivery: Delivery) -> None:
        if not self._is_drained:
            await self._sleep(delay.PAUSE)
        await self._broker.nack(delivery, requeue=True)

    async def _has_rested(self, delivery: Delivery, queue: str) -> bool:
        """Let it rest for its time, or less if others may wait; answers False after `drain`."""
        before = max(delay_count(delivery.message.headers) - 1, 0)
        seconds = exponential(FIRST_PAUSE, before, LONGEST_DELAY.total_seconds())
        if self._is_crowded and self._backoff.failed_recently(queue, self._monotonic()):
            seconds = min(seconds, LONGEST_IN_VAIN)
        leave = asyncio.Event()
        self._leaves.add(leave)
        try:
            if self._is_full and self._may_leave:
                self._release_oldest()
            await self._rest(min(seconds, LONGEST_IN_A_CROWD), leave)
            if seconds > LONGEST_IN_A_CROWD and not self._is_full:
                self._may_leave[leave] = None
                await self._rest(seconds - LONGEST_IN_A_CROWD, leave)
        finally:
            self._may_leave.pop(leave, None)
            self._leaves.discard(leave)
        return not self._is_drained

    def _release_oldest(self) -> None:
        oldest = next(iter(self._may_leave))
        del self._may_leave[oldest]
        oldest.set()

    @property
    def _is_crowded(self) -> bool:
        return self._in_hand > self._places // 2

    @property
    def _is_full(self) -> bool:
        return self._in_hand >= self._places

    async def _rest(self, seconds: float, leave: asyncio.Event) -> None:
        if self._is_drained:
            return
        rest = asyncio.ensure_future(self._sleep(seconds))
        called = asyncio.ensure_future(leave.wait())
        try:
            await asyncio.wait({rest, called}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest.cancel()
            called.cancel()

    def _log_missing(self, queue: str) -> None:
        """Log that a queue is not there: at once, and then ever more rarely."""
        if not self._missing.is_due(queue, self._monotonic()):
            return
        text = (
            f"There is no queue {shown(queue)}, from which messages of others were put off. They "
            f"wait in {WAITING_QUEUE} until there is: "
            f"{serve_missing(shown(queue), in_memory=self._in_memory)}"
            f"{'' if self._in_memory else _OR_DECLARE}"
        )
        say(log, logging.ERROR, "publish.returned", text)


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
