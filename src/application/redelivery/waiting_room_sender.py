"""Putting off what has no row in the ledger: a copy of it goes to the waiting room.

Nobody could send it again if it were lost. So it leaves its queue only once another has a copy, and
that one has no TTL: see `waiting_room`, which brings it back.
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

#: The queue that a message in the waiting room came from, and goes back to.
WAITS_FOR_HEADER: Final = "cron-waits-for"

#: Of those that rest longest one is told of in so many seconds: they may be very many.
TELL_EVERY: Final = 60.0


class WaitingRoomSender:
    """Settles deliveries once a copy of them waits."""

    def __init__(self, broker: AsyncBrokerPort, monotonic: Callable[[], float]) -> None:
        """*broker* is what the deliveries come from; *monotonic* counts seconds."""
        self._broker = broker
        self._monotonic = monotonic
        self._told_at = float("-inf")

    async def defer(self, delivery: Delivery, reason: str, *, id_: str | None = None) -> None:
        """Have a message delivered to the same queue after a rest, as *id_* if it has none.

        What the broker does not confirm is given back after a pause. A copy of it may wait then.
        """
        times = delay_count(delivery.message.headers)
        level = logging.WARNING if self._is_told(times) else logging.DEBUG
        say(log, level, "attempt.put-off", f"Put off: {reason}")
        await self._wait(delivery, times=times + 1, id_=id_)

    async def defer_untried(self, delivery: Delivery, *, last_failed: bool, id_: str) -> None:
        """Do so for one that nobody has looked for this time.

        It comes back soon, unless another was just looked for *in_vain*: then it rests like that
        one.
        """
        times = delay_count(delivery.message.headers) if last_failed else 0
        await self._wait(delivery, times=times + 1, id_=id_)

    async def _wait(self, delivery: Delivery, *, times: int, id_: str | None) -> None:
        is_sent = await waits(self._broker, delivery, delivery.queue, times=times, id_=id_)
        await settle(self._broker, delivery, is_sent=is_sent)

    def _is_told(self, times: int) -> bool:
        if times < MOST_DOUBLINGS:
            return times + 1 == WARN_AT_COUNT
        now = self._monotonic()
        if now - self._told_at < TELL_EVERY:
            return False
        self._told_at = now
        return True


async def waits(
    broker: AsyncBrokerPort,
    delivery: Delivery,
    queue: str,
    *,
    times: int,
    id_: str | None = None,
) -> bool:
    """Tell whether a copy of a delivery now waits for *queue*: only then may it be acked."""
    message = delivery.message
    copied = copy_headers(delivery, times=min(times, MOST_DOUBLINGS))
    headers = kept_headers({WAITS_FOR_HEADER: queue, **without_origin(copied)})
    copy = msgspec.structs.replace(message, headers=headers, id=message.id or id_)
    return await broker.publish(Envelope(copy, ToWaiting())) is Published.CONFIRMED


def without_origin(headers: dict[str, object]) -> dict[str, object]:
    """Leave out what is of the waiting room alone."""
    return {name: headers[name] for name in headers if name != WAITS_FOR_HEADER}
