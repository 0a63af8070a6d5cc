"""Redelivery after a delay: a copy of the message comes back through the lanes.

Lanes deliver at most once (ADR 6), so this is for messages of ours alone: the reconciler sends
again what they lose. A message without a row in the ledger goes to the waiting room instead.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import SIGNED, AttemptRef
from cronhare.domain.retries.backoff import REST
from cronhare.domain.topology import LANE_UNIT, ToQueue
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published

from ..logs import say

log = logging.getLogger(__name__)

#: How often a message was put off. Anybody may write it: it only makes the delay longer.
PUT_OFF_HEADER: Final = "cron-put-off"

#: More of them make no difference, and the longest rest of what is in the waiting room.
MOST_DOUBLINGS: Final = 6
LONGEST_DELAY: Final = 256 * LANE_UNIT

#: A message in the waiting room that was put off so often is logged as a warning.
WARN_AT_COUNT: Final = 3

#: Seconds before a message that cannot be put off is given back: it is here again at once.
PAUSE = 1.0

#: Headers with this prefix are the broker's, except those that we sign.
BROKER_PREFIX: Final = "x-"


def delay_count(headers: Mapping[str, object]) -> int:
    """Read how often a message was put off, as far as it matters.

    >>> delay_count({}), delay_count({"cron-put-off": 2}), delay_count({"cron-put-off": -1})
    (0, 2, 0)
    >>> delay_count({"cron-put-off": 2**63}), delay_count({"cron-put-off": "2"})
    (6, 0)
    """
    match headers.get(PUT_OFF_HEADER):
        case bool():
            return 0
        case int(times):
            return min(max(times, 0), MOST_DOUBLINGS)
    return 0


def without_delay_count(headers: Mapping[str, object]) -> dict[str, object]:
    """Leave out the count, which is of this message alone."""
    return {name: headers[name] for name in headers if name != PUT_OFF_HEADER}


def copy_headers(delivery: Delivery, *, times: int) -> dict[str, object]:
    """Give the headers of a copy that is put off for the n-th time, *times*."""
    kept = {
        name: value
        for name, value in delivery.message.headers.items()
        if name in SIGNED or not name.startswith(BROKER_PREFIX)
    }
    return kept_headers({PUT_OFF_HEADER: times, **without_delay_count(kept)})


async def redeliver_later(
    broker: AsyncBrokerPort, delivery: Delivery, ticket: AttemptRef, reason: str
) -> None:
    """Settle the message of a *ticket*, and have a copy delivered to the same queue in a minute.

    A nack would count as a failure of the attempt; and the reconciler waits for up to a day once it
    has sent many copies. What the broker does not confirm is given back after `PAUSE`.
    """
    text = f"Put off for a minute: {reason}"
    say(
        log,
        logging.WARNING,
        "attempt.put-off",
        text,
        execution=ticket.execution_id,
        attempt=ticket.attempt,
    )
    times = delay_count(delivery.message.headers) + 1
    headers = copy_headers(delivery, times=min(times, MOST_DOUBLINGS))
    copy = msgspec.structs.replace(delivery.message, headers=headers)
    published = await broker.publish(Envelope(copy, ToQueue(delivery.queue, REST)))
    await settle(broker, delivery, is_sent=published is Published.CONFIRMED)


async def settle(broker: AsyncBrokerPort, delivery: Delivery, *, is_sent: bool) -> None:
    """Ack a delivery that has a copy; give one that has none back after `PAUSE`."""
    if is_sent:
        await broker.ack(delivery)
        return
    await asyncio.sleep(PAUSE)
    await broker.nack(delivery, requeue=True)
