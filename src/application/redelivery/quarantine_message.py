"""Setting messages apart that nobody can read, with the reason and what of them can be kept."""

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

#: The size of the body as it came; of one that is larger than `LARGEST_PARKED` the rest is gone.
SIZE_HEADER: Final = "cron-parked-size"

#: The raw properties of a message whose properties make no sense.
PROPERTIES_HEADER: Final = "cron-parked-properties"

#: Bytes of a body, of raw properties, of a reason, of a name that are kept.
LARGEST_PARKED: Final = LARGEST_BODY
LARGEST_PROPERTIES: Final = 16 * 1024
LARGEST_REASON: Final = 2 * 1024
LARGEST_NAME: Final = 255

#: Bytes of a body that are kept where the broker did not take more.
STUB: Final = 1024

#: Why a message of somebody else is parked where only ours are wanted.
FOREIGN_REFUSED: Final = (
    "it has none of our headers, and messages of others are refused (CRON_FOREIGN_MESSAGES)"
)

#: Seconds that what cannot be parked either is held where nothing dead-letters it: it comes back
#: at once.
PAUSE = 5.0


async def quarantine_message(broker: AsyncBrokerPort, delivery: Delivery, reason: str) -> None:
    """Move a delivery to quarantine and settle it; the worker goes on.

    What the broker does not take is tried once more as a mere stub. If that fails, too, it is left
    to the queue's dead-letter exchange, which brings it back after a while: in our hands it would
    take a place from the innocent.
    """
    reason = cut(reason, LARGEST_REASON)
    for parked in _ever_smaller(delivery, reason):
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
    # Where there are none it would be gone.
    has_dead_letters = delivery.queue not in (FAILED_QUEUE, WAITING_QUEUE)
    if not has_dead_letters:
        await asyncio.sleep(PAUSE)
    await broker.nack(delivery, requeue=not has_dead_letters)


def _ever_smaller(delivery: Delivery, reason: str) -> Iterator[Message]:
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
    except Exception:  # whatever cannot be written must not be met again and again
        log.exception("A message cannot be written", extra={"action": "message.unwritable"})
        return False
