"""Putting off messages without a row in the ledger: a copy goes to the waiting room.

No reconciler could send them again. So one is acked only once the waiting queue has a copy, and
that queue has no TTL: `waiting_room` brings them back.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.topology import ToWaiting
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published

from ..logs import say
from .delay import MOST_DOUBLINGS, WARN_AT_COUNT, copy_headers, delay_count, settle

log = logging.getLogger(__name__)

#: The queue that a waiting message came from, and goes back to.
WAITS_FOR_HEADER: Final = "cron-waits-for"

#: Of the messages with the longest rest one is logged in so many seconds: there may be very many.
WARN_EVERY: Final = 60.0


class WaitingRoomSender:
    """Sends copies of deliveries to the waiting room, and settles those that are there."""

    def __init__(self, broker: AsyncBrokerPort, monotonic: Callable[[], float]) -> None:
        """*broker* is what the deliveries come from; *monotonic* counts seconds."""
        self._broker = broker
        self._monotonic = monotonic
        self._warned_at = float("-inf")

    async def defer(self, delivery: Delivery, reason: str, *, id_: str | None = None) -> None:
        """Have a message delivered to the same queue after a rest, as *id_* if it has none.

        What the broker does not confirm is given back after a pause; a copy may wait all the same.
        """
        times = delay_count(delivery.message.headers)
        level = logging.WARNING if self._is_warned(times) else logging.DEBUG
        say(log, level, "attempt.put-off", f"Put off: {reason}")
        await self._send(delivery, times=times + 1, id_=id_)

    async def _send(self, delivery: Delivery, *, times: int, id_: str | None) -> None:
        is_sent = await send_to_waiting_room(
            self._broker, delivery, delivery.queue, times=times, id_=id_
        )
        await settle(self._broker, delivery, is_sent=is_sent)

    def _is_warned(self, times: int) -> bool:
        if times < MOST_DOUBLINGS:
            return times + 1 == WARN_AT_COUNT
        now = self._monotonic()
        if now - self._warned_at < WARN_EVERY:
            return False
        self._warned_at = now
        return True


async def send_to_waiting_room(
    broker: AsyncBrokerPort,
    delivery: Delivery,
    queue: str,
    *,
    times: int,
    id_: str | None = None,
) -> bool:
    """Send a copy that waits for *queue*; tells whether it is there: only then ack the original."""
    message = delivery.message
    copied = copy_headers(delivery, times=min(times, MOST_DOUBLINGS))
    headers = kept_headers({WAITS_FOR_HEADER: queue, **without_origin(copied)})
    copy = msgspec.structs.replace(message, headers=headers, id=message.id or id_)
    return await broker.publish(Envelope(copy, ToWaiting())) is Published.CONFIRMED


def without_origin(headers: dict[str, object]) -> dict[str, object]:
    """Leave out the header that is of the waiting room alone."""
    return {name: headers[name] for name in headers if name != WAITS_FOR_HEADER}
