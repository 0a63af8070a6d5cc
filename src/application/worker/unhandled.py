"""What becomes of a delivery that cannot be handled now: it is parked, delayed, or deferred.

Parked is what nobody can read, with the reason. A message of ours is delayed: a copy comes back
through the delay queues. They deliver at most once (ADR 6), and the reconciler sends again what
they lose. A message without a row in the ledger is deferred instead: it is acked only once the
waiting queue has a copy, which `WaitingRoom` brings back.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

import attrs
import msgspec

from cronhare.application.starting import serve_missing
from cronhare.domain.messages import LARGEST_BODY, SIGNED, AttemptRef, cut, kept_headers
from cronhare.domain.retries.policy import REST
from cronhare.domain.texts.printable import shown
from cronhare.domain.topology import (
    FAILED_QUEUE,
    WAITING_QUEUE,
    ToQuarantine,
    ToQueue,
    ToWaiting,
    checked_queue,
    is_ours,
)
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Message, Published

from ..logs import say
from ..outages import LogLimiter

log = logging.getLogger(__name__)

#: Seconds before a delivery of which the broker takes no copy is given back: it is here again at
#: once.
PAUSE = 1.0

#: The headers of what is parked: why, from where, the size of the body as it came (it is cut to
#: `LARGEST_PARKED`), and the raw properties of a message whose properties cannot be decoded.
REASON_HEADER: Final = "cron-parked-because"
QUEUE_HEADER: Final = "cron-parked-from"
SIZE_HEADER: Final = "cron-parked-size"
PROPERTIES_HEADER: Final = "cron-parked-properties"

#: Bytes of a body, of raw properties, of a reason, of a name that are kept.
LARGEST_PARKED: Final = LARGEST_BODY
LARGEST_PROPERTIES: Final = 16 * 1024
LARGEST_REASON: Final = 2 * 1024
LARGEST_NAME: Final = 255

#: Bytes of a body that are kept if the broker does not take more.
STUB: Final = 1024

#: Marks a copy that was delayed or deferred. Anybody may write it: it is asked for once then.
PUT_OFF_HEADER: Final = "cron-put-off"

#: The queue that a deferred message came from, and goes back to.
WAITS_FOR_HEADER: Final = "cron-waits-for"

#: How long what is deferred rests in the worker that takes it out of the waiting queue.
DEFERRED_FOR: Final = timedelta(seconds=30)

#: Headers with this prefix are the broker's, except those that we sign.
BROKER_PREFIX: Final = "x-"


async def quarantine_message(broker: AsyncBrokerPort, delivery: Delivery, reason: str) -> None:
    """Move a delivery to quarantine and settle it.

    If the broker does not take it, a stub is tried. If that fails too, it is nacked: the queue's
    dead-letter exchange brings it back after a while, and it takes no place from others meanwhile.
    """
    reason = cut(reason, LARGEST_REASON)
    for parked in _parked(delivery, reason):
        if await _is_taken(broker, parked):
            text = f"Parked a message of {delivery.queue} in quarantine: {reason}"
            say(log, logging.ERROR, "message.parked", text)
            await broker.ack(delivery)
            return
    text = (
        f"A message of {delivery.queue} could not be parked: the broker did not take it. "
        f"It was to be parked because: {reason}"
    )
    say(log, logging.ERROR, "message.unparkable", text)
    if delivery.queue in (FAILED_QUEUE, WAITING_QUEUE):  # without dead letters it would be lost
        await _give_back(broker, delivery)
    else:
        await broker.nack(delivery)


def _parked(delivery: Delivery, reason: str) -> Iterator[Message]:
    message, defect = delivery.message, delivery.defect
    headers: dict[str, object] = {
        REASON_HEADER: reason,
        QUEUE_HEADER: cut(delivery.queue, LARGEST_NAME),
        SIZE_HEADER: len(message.body) if defect is None else defect.size,
    }
    others = {name: value for name, value in message.headers.items() if name != "x-death"}
    more = kept_headers(others)
    if defect is not None and defect.properties:
        more[PROPERTIES_HEADER] = defect.properties[:LARGEST_PROPERTIES]
    known = None if message.id is None else cut(message.id, LARGEST_NAME)
    yield Message(body=message.body[:LARGEST_PARKED], headers={**more, **headers}, id=known)
    yield Message(body=message.body[:STUB], headers=headers)


async def _is_taken(broker: AsyncBrokerPort, parked: Message) -> bool:
    try:
        return await broker.publish(Envelope(parked, ToQuarantine())) is Published.CONFIRMED
    except Exception:  # what cannot be written must not come again and again
        log.exception("A message cannot be written", extra={"action": "message.unwritable"})
        return False


async def redeliver_later(
    broker: AsyncBrokerPort, delivery: Delivery, ticket: AttemptRef, reason: str
) -> None:
    """Settle a *ticket*'s message; a copy comes in a minute. A nack would count as a failure."""
    text, id_, attempt = f"Put off for a minute: {reason}", ticket.execution_id, ticket.attempt
    say(log, logging.WARNING, "attempt.put-off", text, execution=id_, attempt=attempt)
    await _replace(broker, delivery, Envelope(_copied(delivery), ToQueue(delivery.queue, REST)))


async def defer(
    broker: AsyncBrokerPort, delivery: Delivery, reason: str, *, id_: str | None = None
) -> None:
    """Settle a message; a copy, with *id_* if it has none, is delivered again after a rest."""
    text = f"Put off for {DEFERRED_FOR.total_seconds():g} s: {reason}"
    say(log, logging.WARNING, "attempt.put-off", text)
    copy = _copied(delivery, id_=id_, waits_for=delivery.queue)
    await _replace(broker, delivery, Envelope(copy, ToWaiting()))


async def _replace(broker: AsyncBrokerPort, delivery: Delivery, copy: Envelope) -> None:
    """Ack a delivery once its copy is in a queue; else give it back, though the copy may arrive."""
    if await broker.publish(copy) is Published.CONFIRMED:
        await broker.ack(delivery)
    else:
        await _give_back(broker, delivery)


async def _give_back(broker: AsyncBrokerPort, delivery: Delivery) -> None:
    await asyncio.sleep(PAUSE)
    await broker.nack(delivery, requeue=True)


def _copied(delivery: Delivery, *, id_: str | None = None, waits_for: str | None = None) -> Message:
    message = delivery.message
    marks: dict[str, object] = {} if waits_for is None else {WAITS_FOR_HEADER: waits_for}
    theirs = publisher_headers(message.headers, besides=SIGNED)
    headers = kept_headers({**marks, PUT_OFF_HEADER: 1, **theirs})
    return msgspec.structs.replace(message, headers=headers, id=message.id or id_)


def was_put_off(delivery: Delivery) -> bool:
    return PUT_OFF_HEADER in delivery.message.headers


def publisher_headers(
    headers: Mapping[str, object], *, besides: Collection[str] = ()
) -> dict[str, object]:
    """Pick the headers of the publisher, and those *besides*: a broker's never go back (ADR 6)."""
    return {
        name: value
        for name, value in headers.items()
        if name in besides
        or not (name.startswith(BROKER_PREFIX) or name in (PUT_OFF_HEADER, WAITS_FOR_HEADER))
    }


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
    _missing: LogLimiter = attrs.field(init=False, factory=LogLimiter)

    def drain(self) -> None:
        self._drained.set()

    async def handle(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; it is settled then, whatever happened."""
        try:
            queue = delivery.message.headers.get(WAITS_FOR_HEADER)
            if (fault := _fault_of(delivery, queue)) is not None:
                await quarantine_message(self._broker, delivery, fault)
            elif await self._has_rested():
                await self._send_back(delivery, str(queue))
            else:
                await self._broker.nack(delivery, requeue=True)
        except Exception as error:
            # Unsettled, it would keep its place for ever.
            text = "A message that waits met a fault of ours"
            log.exception("%s", text, extra={"action": "delivery.fault"})
            await quarantine_message(self._broker, delivery, f"{text}: {error!r}")

    async def _has_rested(self) -> bool:
        if not self._drained.is_set():
            rested = asyncio.ensure_future(self._sleep(DEFERRED_FOR.total_seconds()))
            drained = asyncio.ensure_future(self._drained.wait())
            await asyncio.wait({rested, drained}, return_when=asyncio.FIRST_COMPLETED)
            rested.cancel()
            drained.cancel()
        return not self._drained.is_set()

    async def _send_back(self, delivery: Delivery, queue: str) -> None:
        """Publish it to its queue. If that does not take it, it waits anew, behind the others."""
        published = await self._broker.publish(Envelope(_copied(delivery), ToQueue(queue)))
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
            copy = _copied(delivery, waits_for=queue)
            await _replace(self._broker, delivery, Envelope(copy, ToWaiting()))


def _fault_of(delivery: Delivery, queue: object) -> str | None:
    if delivery.defect is not None:
        return delivery.defect.reason
    if not isinstance(queue, str):
        return f"it names no queue that it waits for, in its header {WAITS_FOR_HEADER}"
    if queue == FAILED_QUEUE:
        return None
    if is_ours(queue):
        return f"it cannot go back: {shown(queue)} is one of the system's own queues"
    try:
        checked_queue(queue)
    except ValueError as error:
        return f"it cannot go back: {error}"
    return None
