"""How late the lanes are, measured from the publish to the worker's hands; never early."""

import asyncio
import random
import statistics
import time
from datetime import timedelta

import pytest

from cronhare.adapters.rabbitmq import AiormqBroker
from cronhare.domain.topology import MAIN_QUEUE, ToQueue
from cronhare.ports.broker import Delivery, Envelope, Message, Published

pytestmark = pytest.mark.integration

#: Milliseconds.
LATE_AT_THE_MEDIAN = 150
LATE_AT_THE_MOST = 1000


async def lateness(url: str, delays: list[timedelta], *, queue_type: str) -> list[float]:
    """Send one message through the lanes for each delay; tell how late each came, in ms."""
    broker = AiormqBroker(url, queue_type=queue_type)
    sent: dict[bytes, float] = {}
    late: list[float] = []
    acking: list[asyncio.Task[None]] = []
    all_came = asyncio.Event()

    def take(delivery: Delivery) -> None:
        body = delivery.message.body
        late.append((time.monotonic() - sent[body]) * 1000)
        acking.append(asyncio.create_task(broker.ack(delivery)))
        if len(late) == len(delays):
            all_came.set()

    await broker.consume([MAIN_QUEUE], prefetch=50, on_delivery=take)
    for number, delay in enumerate(delays):
        body = b"%d" % number
        sent[body] = time.monotonic() + delay.total_seconds()
        answer = await broker.publish(Envelope(Message(body=body), ToQueue(delay=delay)))
        assert answer is Published.CONFIRMED
    async with asyncio.timeout(max(delays).total_seconds() + 10):
        await all_came.wait()
    await broker.close()
    return sorted(late)


def tell(what: str, late: list[float]) -> None:
    median, p90 = statistics.median(late), late[int(len(late) * 0.9)]
    print(
        f"\n{what}: {median:.0f} ms late at the median, {p90:.0f} p90, {late[-1]:.0f} at the most"
    )


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_the_waits_of_three_retries_are_never_early_and_hardly_late(
    vhost: str, queue_type: str
) -> None:
    waits = [timedelta(seconds=seconds) for seconds in (1, 2, 4)]

    late = await lateness(vhost, waits, queue_type=queue_type)

    tell(f"1, 2, 4 s, {queue_type}", late)
    assert late[0] >= 0
    assert statistics.median(late) <= LATE_AT_THE_MEDIAN
    assert late[-1] <= LATE_AT_THE_MOST


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_a_hundred_mixed_delays_are_never_early_and_hardly_late(
    vhost: str, queue_type: str
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    waits = [timedelta(milliseconds=100 * chance.randint(1, 40)) for _ in range(100)]

    late = await lateness(vhost, waits, queue_type=queue_type)

    tell(f"100 mixed delays (seed {seed}), {queue_type}", late)
    assert len(late) == len(waits)
    assert late[0] >= 0
    assert statistics.median(late) <= LATE_AT_THE_MEDIAN
    assert late[-1] <= LATE_AT_THE_MOST
