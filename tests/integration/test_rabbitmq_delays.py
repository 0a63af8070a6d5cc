"""How late the lanes are, measured from the publish to the worker's hands; never early."""

import asyncio
import random
import statistics
import time
from contextlib import suppress
from datetime import timedelta
from itertools import count

import attrs
import pytest

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.domain.topology import MAIN_QUEUE, ToQueue
from cronhare.ports.broker import Delivery, Envelope, Message, Published

pytestmark = pytest.mark.integration

#: Milliseconds, on a machine that has time for it; and how many times what messages without a
#: delay need beside them on one that has not. A delay goes through up to a dozen queues.
LATE_AT_THE_MEDIAN = 150
LATE_AT_THE_MOST = 1000
TIMES = 20

AT_ONCE = timedelta(0)


@attrs.frozen
class Lateness:
    """How late messages came, in ms, the least late first; *at_once* are those without a delay."""

    delayed: list[float]
    at_once: list[float]

    def check(self) -> None:
        """Nothing is early, and hardly anything late."""
        assert self.delayed[0] >= 0
        median, most = statistics.median(self.at_once) * TIMES, self.at_once[-1] * TIMES
        assert statistics.median(self.delayed) <= LATE_AT_THE_MEDIAN + median
        assert self.delayed[-1] <= LATE_AT_THE_MOST + most


async def lateness(url: str, delays: list[timedelta], *, queue_type: str) -> Lateness:
    """Send one message through the lanes for each delay, and others beside them without any."""
    broker = AioPikaBroker(url, queue_type=queue_type)
    sent: dict[bytes, float] = {}
    late: dict[bytes, float] = {}
    acking: list[asyncio.Task[None]] = []
    all_came = asyncio.Event()

    def take(delivery: Delivery) -> None:
        body = delivery.message.body
        late[body] = (time.monotonic() - sent[body]) * 1000
        acking.append(asyncio.create_task(broker.ack(delivery)))
        if late.keys() >= delayed:
            all_came.set()

    async def send(body: bytes, delay: timedelta) -> None:
        sent[body] = time.monotonic() + delay.total_seconds()
        answer = await broker.publish(Envelope(Message(body=body), ToQueue(delay=delay)))
        assert answer is Published.CONFIRMED

    delayed = {b"%d" % number for number in range(len(delays))}
    await broker.consume([MAIN_QUEUE], prefetch=50, on_delivery=take)
    for number, delay in enumerate(delays):
        await send(b"%d" % number, delay)
    async with asyncio.timeout(max(delays).total_seconds() + 60):
        for number in count():
            await send(b"at once %d" % number, AT_ONCE)
            if await came(all_came, within=0.05):
                break
    await broker.close()
    return Lateness(
        sorted(late[body] for body in delayed),
        sorted(ms for body, ms in late.items() if body not in delayed),
    )


async def came(event: asyncio.Event, *, within: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout=within)
    return event.is_set()


def tell(what: str, lateness: Lateness) -> None:
    late = lateness.delayed
    median, p90 = statistics.median(late), late[int(len(late) * 0.9)]
    print(
        f"\n{what}: {median:.0f} ms late at the median, {p90:.0f} p90, {late[-1]:.0f} at the most"
    )


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_a_hundred_mixed_delays_are_never_early_and_hardly_late(
    vhost: str, queue_type: str
) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    waits = [timedelta(milliseconds=100 * rng.randint(1, 40)) for _ in range(100)]

    late = await lateness(vhost, waits, queue_type=queue_type)

    tell(f"100 mixed delays (seed {seed}), {queue_type}", late)
    assert len(late.delayed) == len(waits)
    late.check()
