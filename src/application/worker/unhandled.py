"""What becomes of a delivery that cannot be handled now: it is parked, delayed, or deferred.

Parked is what nobody can read, with the reason. A message of ours is delayed: a copy comes back
through the delay queues. They deliver at most once (ADR 6), and the reconciler sends again what
they lose. A message without a row in the ledger is deferred instead: it is acked only once the
waiting queue has a copy, which `foreign.WaitingRoom` brings back.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

import msgspec

from cronhare.domain.messages.headers import cut, kept_headers
from cronhare.domain.messages.messages import LARGEST_BODY, SIGNED, AttemptRef
from cronhare.domain.retries.backoff import REST
from cronhare.domain.topology import FAILED_QUEUE, WAITING_QUEUE, ToQuarantine, ToQueue, ToWaiting
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Message, Published

from ..logs import say

log = logging.getLogger(__name__)

#: Seconds before a delivery of which the broker takes no copy is given back: it is here again at
#: once.
PAUSE = 1.0

REASON_HEADER: Final = "cron-parked-because"
QUEUE_HEADER: Final = "cron-parked-from"

#: The size of the body as it came; it is cut to `LARGEST_PARKED`.
SIZE_HEADER: Final = "cron-parked-size"

#: The raw properties of a message whose properties cannot be decoded.
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
        await give_back(broker, delivery)
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
    more: dict[str, object] = kept_headers(others)
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
    """Settle the message of a *ticket*, and have a copy delivered to the same queue in a minute.

    A nack would count as a failure of the attempt; and the reconciler waits for up to a day once it
    has sent many copies.
    """
    text, id_, attempt = f"Put off for a minute: {reason}", ticket.execution_id, ticket.attempt
    say(log, logging.WARNING, "attempt.put-off", text, execution=id_, attempt=attempt)
    await _replace(broker, delivery, Envelope(copied(delivery), ToQueue(delivery.queue, REST)))


async def defer(
    broker: AsyncBrokerPort, delivery: Delivery, reason: str, *, id_: str | None = None
) -> None:
    """Settle a message, and have a copy delivered to the same queue after a rest.

    The copy has *id_* if the message has none.
    """
    text = f"Put off for {DEFERRED_FOR.total_seconds():g} s: {reason}"
    say(log, logging.WARNING, "attempt.put-off", text)
    await rest(broker, delivery, queue=delivery.queue, id_=id_)


async def rest(
    broker: AsyncBrokerPort, delivery: Delivery, *, queue: str, id_: str | None = None
) -> None:
    """Settle a message, and have a copy rest that then goes to *queue*."""
    copy = copied(delivery, id_=id_, waits_for=queue)
    await _replace(broker, delivery, Envelope(copy, ToWaiting()))


async def _replace(broker: AsyncBrokerPort, delivery: Delivery, copy: Envelope) -> None:
    """Ack a delivery once its copy is in a queue; else give it back, though the copy may arrive."""
    if await broker.publish(copy) is Published.CONFIRMED:
        await broker.ack(delivery)
    else:
        await give_back(broker, delivery)


async def give_back(broker: AsyncBrokerPort, delivery: Delivery) -> None:
    """Give a delivery back to the head of its queue, after a pause."""
    await asyncio.sleep(PAUSE)
    await broker.nack(delivery, requeue=True)


def copied(delivery: Delivery, *, id_: str | None = None, waits_for: str | None = None) -> Message:
    """Copy a message that is put off, as *id_* if it has none; *waits_for* names its queue."""
    message = delivery.message
    marks: dict[str, object] = {} if waits_for is None else {WAITS_FOR_HEADER: waits_for}
    theirs = publisher_headers(message.headers, besides=SIGNED)
    headers = kept_headers({**marks, PUT_OFF_HEADER: 1, **theirs})
    return msgspec.structs.replace(message, headers=headers, id=message.id or id_)


def was_put_off(delivery: Delivery) -> bool:
    """Tell whether a delivery is a copy that was delayed or deferred."""
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
