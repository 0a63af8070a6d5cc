"""Giving a delivery's place to others for a while: a copy of it comes back through the lanes.

They hand on at most once (ADR 13), so this is for messages of ours alone: what is lost there the
reconciler sends again. What has no row in the ledger is deferred instead (`deferring`).
"""

import asyncio
import logging
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from cronhare.domain.messages.headers import kept_headers
from cronhare.domain.messages.messages import SIGNED, AttemptRef
from cronhare.domain.retries.backoff import exponential
from cronhare.domain.topology import LANE_UNIT, ToQueue
from cronhare.ports.broker import AsyncBrokerPort, Delivery, Envelope, Published

from ..logs import say

log = logging.getLogger(__name__)

#: How often a message was put off. Anybody may write it: all it does is to make the rest longer.
PUT_OFF_HEADER: Final = "cron-put-off"

#: What was put off for the first time comes back after this, then after twice as long, each of
#: which is the time of a single lane: what is held begins at the most so much later as it was held.
FIRST_DELAY: Final = 4 * LANE_UNIT
MOST_DOUBLINGS: Final = 6
LONGEST_DELAY: Final = FIRST_DELAY * 2**MOST_DOUBLINGS

#: What comes in numbers rests for up to so many eighths less, a time of no more than three lanes.
MOST_EIGHTHS_LESS: Final = 3

#: The log tells of one that was put off so often, more than a second, and with each longest rest.
WARN_AT_COUNT: Final = 3

#: Seconds that a message is held which cannot be put off: given back, it is here again at once.
PAUSE = 1.0

#: The headers with this beginning are the broker's, but for those that we sign.
BROKER_PREFIX: Final = "x-"


def delay_count(headers: Mapping[str, object]) -> int:
    """Read how often a message was put off, as far as it matters.

    >>> times_put_off({}), times_put_off({"cron-put-off": 2}), times_put_off({"cron-put-off": -1})
    (0, 2, 0)
    >>> times_put_off({"cron-put-off": 2**63}), times_put_off({"cron-put-off": "2"})
    (6, 0)
    """
    match headers.get(PUT_OFF_HEADER):
        case bool():
            return 0
        case int(times):
            return min(max(times, 0), MOST_DOUBLINGS)
    return 0


def without_delay_count(headers: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is of this message alone, and not of what becomes of it."""
    return {name: headers[name] for name in headers if name != PUT_OFF_HEADER}


def copy_headers(delivery: Delivery, *, times: int) -> dict[str, object]:
    """Give the headers of a copy that is put off for so many *times* now."""
    kept = {
        name: value
        for name, value in delivery.message.headers.items()
        if name in SIGNED or not name.startswith(BROKER_PREFIX)
    }
    return kept_headers({PUT_OFF_HEADER: times, **without_delay_count(kept)})


async def redeliver_later(
    broker: AsyncBrokerPort, delivery: Delivery, ticket: AttemptRef, reason: str
) -> None:
    """Settle the message of a *ticket*, and have it delivered to the same queue after a rest.

    It is not nacked: that counts as a failure of its attempt. And not left to the reconciler, which
    waits for up to a day once it has sent many copies. What the broker does not confirm is given
    back after `PAUSE`.
    """
    times = delay_count(delivery.message.headers)
    is_told = times + 1 == WARN_AT_COUNT or times == MOST_DOUBLINGS
    level = logging.WARNING if is_told else logging.DEBUG
    say(
        log,
        level,
        "attempt.put-off",
        f"Put off: {reason}",
        execution=ticket.execution_id,
        attempt=ticket.attempt,
    )
    rest = exponential(FIRST_DELAY, times, LONGEST_DELAY)
    times = min(times + 1, MOST_DOUBLINGS)
    is_sent = await _is_sent(broker, delivery, rest, times=times)
    await settle(broker, delivery, is_sent=is_sent)


async def redeliver_untried(
    broker: AsyncBrokerPort, delivery: Delivery, *, last_failed: bool, random_fraction: float
) -> None:
    """Do so for one that nobody has looked for this time.

    It comes back soon, unless another was just looked for *in_vain*: then it rests like that one,
    or hundreds of them would fill the queue. *random_fraction*, in [0, 1), spreads those.
    """
    times, rest = delay_count(delivery.message.headers), FIRST_DELAY
    if last_failed:
        rest = (
            exponential(FIRST_DELAY, times, LONGEST_DELAY)
            * (8 - math.floor((MOST_EIGHTHS_LESS + 1) * random_fraction))
            / 8
        )
        times = min(times + 1, MOST_DOUBLINGS)
    is_sent = await _is_sent(broker, delivery, rest, times=times)
    await settle(broker, delivery, is_sent=is_sent)


async def settle(broker: AsyncBrokerPort, delivery: Delivery, *, is_sent: bool) -> None:
    """Ack what has a copy; what has none is given back after `PAUSE`."""
    if is_sent:
        await broker.ack(delivery)
        return
    await asyncio.sleep(PAUSE)
    await broker.nack(delivery, requeue=True)


async def _is_sent(
    broker: AsyncBrokerPort, delivery: Delivery, rest: timedelta, *, times: int
) -> bool:
    copy = msgspec.structs.replace(delivery.message, headers=copy_headers(delivery, times=times))
    published = await broker.publish(Envelope(copy, ToQueue(delivery.queue, rest)))
    return published is Published.CONFIRMED
