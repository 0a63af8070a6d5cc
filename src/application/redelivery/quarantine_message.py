"""Moving messages that cannot be handled to the quarantine queue, with the reason."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from cronhare.domain.messages.headers import cut, kept_headers
from cronhare.domain.messages.messages import LARGEST_BODY
from cronhare.domain.topology import FAILED_QUEUE, WAITING_QUEUE, ToQuarantine
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Message, Published

from ..logs import say

log = logging.getLogger(__name__)

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

#: Why a message of another program is parked where only ours are accepted.
FOREIGN_REFUSED: Final = (
    "it has none of our headers, and messages of others are refused (CRON_FOREIGN_MESSAGES)"
)

#: Seconds before a message that cannot be parked is given back to a queue without dead letters: it
#: comes back at once.
PAUSE = 5.0


async def quarantine_message(broker: AsyncBrokerPort, delivery: Delivery, reason: str) -> None:
    """Move a delivery to quarantine and settle it.

    If the broker does not take it, a stub is tried. If that fails too, it is nacked: the queue's
    dead-letter exchange brings it back after a while, and it takes no place from others meanwhile.
    """
    reason = cut(reason, LARGEST_REASON)
    for parked in _copies(delivery, reason):
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
    # Without them it would be lost.
    has_dead_letters = delivery.queue not in (FAILED_QUEUE, WAITING_QUEUE)
    if not has_dead_letters:
        await asyncio.sleep(PAUSE)
    await broker.nack(delivery, requeue=not has_dead_letters)


def _copies(delivery: Delivery, reason: str) -> Iterator[Message]:
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
