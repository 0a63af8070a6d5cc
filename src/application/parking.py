"""Setting messages apart that nobody can read, with the reason and their raw bytes."""

import asyncio
import logging

from cronhare.domain.topology import ToQuarantine
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Message, Published

from .logs import say

log = logging.getLogger(__name__)

REASON_HEADER = "cron-parked-because"

#: A message that cannot be parked either comes back after so many seconds, never at once.
PAUSE = 5.0


async def park(broker: AsyncBrokerPort, delivery: Delivery, reason: str) -> None:
    """Move a delivery to quarantine and settle it; the worker goes on."""
    text = f"Parked a message of {delivery.queue} in quarantine: {reason}"
    say(log, logging.ERROR, "message.parked", text)
    message = delivery.message
    kept = {name: value for name, value in message.headers.items() if name != "x-death"}
    parked = Message(body=message.body, headers={**kept, REASON_HEADER: reason}, id=message.id)
    if await broker.publish(Envelope(parked, ToQuarantine())) is Published.CONFIRMED:
        await broker.ack(delivery)
    else:
        await asyncio.sleep(PAUSE)
        await broker.nack(delivery, requeue=True)
