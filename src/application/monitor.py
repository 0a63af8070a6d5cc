"""The failed-queue monitor: says loudly what failed for good (S0)."""

import logging

import msgspec

from cronhare.domain.messages import FailedMessage
from cronhare.ports.broker import AsyncBrokerPort, Delivery

from .logs import say
from .parking import park

log = logging.getLogger(__name__)


class FailedMonitor:
    """Logs each message of the failed queue, then acks it; parks what it cannot read (C10).

    The archive is the permanent store; our own failures are in it before they get here (C9).
    """

    def __init__(self, broker: AsyncBrokerPort) -> None:
        """*broker* is what the deliveries come from."""
        self._broker = broker

    async def handle(self, delivery: Delivery) -> None:
        """Log one failure."""
        body = delivery.message.body
        try:
            failed = msgspec.json.decode(body, type=FailedMessage)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            await park(self._broker, delivery, f"the body is not a failed message: {error}")
            return
        self._say(failed, body)
        await self._broker.ack(delivery)

    def _say(self, failed: FailedMessage, body: bytes) -> None:
        say(
            log,
            logging.ERROR,
            "failed",
            "⚠️ PERMANENTLY FAILED TASK",
            type=failed.type,
            id=failed.id,
            scheduler_id=failed.scheduler_id,
            retry_count=failed.retry_count,
            failed_at=failed.failed_at,
        )
        details = msgspec.json.format(body, indent=2).decode()
        say(log, logging.DEBUG, "failed.details", f"Failed task details: {details}")
