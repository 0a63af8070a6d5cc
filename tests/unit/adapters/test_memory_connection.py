"""Connections to the in-memory broker, from threads and loops."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.topology import LANE_UNIT, MAIN_QUEUE, ToQueue
from cronhare.ports.broker import (
    BrokerPort,
    Delivery,
    Envelope,
    Message,
    Published,
)
from tests.frozen_clock import FrozenClock
from tests.ports import ReadableBroker
from tests.trial_broker import TrialBroker

START = datetime(2026, 3, 28, 12, 0, 0, 700_000, tzinfo=UTC)
A_DAY = timedelta(days=1)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


@pytest.fixture
def broker(clock: FrozenClock) -> TrialBroker:
    return TrialBroker(clock)


def _publish(
    broker: BrokerPort, body: bytes = b"task", *, delay: timedelta = timedelta(0)
) -> Published:
    (answer,) = broker.publish([Envelope(Message(body=body), ToQueue(delay=delay))])
    return answer


def _receive(broker: ReadableBroker) -> Delivery:
    delivery = broker.receive(MAIN_QUEUE)
    assert delivery is not None
    return delivery


async def test_only_the_connection_that_got_a_message_can_settle_it(broker: TrialBroker) -> None:
    _publish(broker)
    delivery = _receive(broker)
    stranger = broker.connect()

    await stranger.ack(delivery)
    broker.close()

    assert broker.depth(MAIN_QUEUE) == 1


async def test_consuming_declares_a_queue_that_nobody_declared(broker: TrialBroker) -> None:
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    connection = broker.connect()

    await connection.consume(["reports"], prefetch=1, on_delivery=seen.put_nowait)
    broker.publish([Envelope(Message(body=b"report"), ToQueue("reports"))])

    assert (await asyncio.wait_for(seen.get(), timeout=60)).queue == "reports"
    await connection.close()


def test_a_loop_that_ended_without_closing_gives_back_what_it_had(broker: TrialBroker) -> None:
    async def take_one_and_vanish() -> None:
        seen: asyncio.Queue[Delivery] = asyncio.Queue()
        await broker.connect().consume([MAIN_QUEUE], prefetch=2, on_delivery=seen.put_nowait)
        await seen.get()

    _publish(broker, b"one")
    asyncio.run(take_one_and_vanish())

    _publish(broker, b"two")

    assert [_receive(broker).message.body for _ in range(2)] == [b"one", b"two"]


async def test_threads_publish_while_a_loop_consumes_and_nothing_is_lost_or_doubled(
    broker: TrialBroker,
) -> None:
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    connection = broker.connect()
    await connection.consume([MAIN_QUEUE], prefetch=7, on_delivery=seen.put_nowait)

    def publish(thread: int) -> None:
        for batch in range(25):
            broker.publish(
                [
                    Envelope(Message(body=b"%d-%d-%d" % (thread, batch, n)), ToQueue())
                    for n in range(20)
                ]
            )

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    bodies = []
    for _ in range(2000):
        delivery = await asyncio.wait_for(seen.get(), timeout=60)
        bodies.append(delivery.message.body)
        await connection.ack(delivery)
    for thread in threads:
        thread.join()

    assert len(set(bodies)) == 2000
    assert seen.empty()
    assert broker.depth(MAIN_QUEUE) == 0
    await connection.close()


async def test_a_jump_delivers_without_anybody_asking(
    broker: TrialBroker, clock: FrozenClock
) -> None:
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    connection = broker.connect()
    await connection.consume([MAIN_QUEUE], prefetch=1, on_delivery=seen.put_nowait)
    _publish(broker, delay=timedelta(hours=1))
    await asyncio.sleep(0)  # the loop has seen all there was to see

    clock.advance(timedelta(hours=1))

    assert (await asyncio.wait_for(seen.get(), timeout=60)).message.body == b"task"
    await connection.close()


async def test_on_the_machines_clock_a_delay_ends_by_itself_even_if_another_thread_began_it() -> (
    None
):
    clock = SystemClock()
    broker = TrialBroker(clock)
    seen: asyncio.Queue[float] = asyncio.Queue()
    connection = broker.connect()
    await connection.consume(
        [MAIN_QUEUE], prefetch=1, on_delivery=lambda _: seen.put_nowait(clock.monotonic())
    )
    await asyncio.sleep(0)  # the loop knows by now that there is nothing to wait for

    began = clock.monotonic()
    await asyncio.to_thread(_publish, broker, delay=LANE_UNIT * 3)  # two lanes, two timers

    arrived = await asyncio.wait_for(seen.get(), timeout=60)
    assert arrived - began >= LANE_UNIT.total_seconds() * 3
    await connection.close()


async def test_a_shorter_delay_overtakes_the_timer_of_a_longer_one() -> None:
    broker = TrialBroker(SystemClock())
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    connection = broker.connect()
    await connection.consume([MAIN_QUEUE], prefetch=2, on_delivery=seen.put_nowait)
    _publish(broker, b"long", delay=timedelta(seconds=1638.4))
    await asyncio.sleep(0)  # the timer of the long one is set

    _publish(broker, b"short", delay=LANE_UNIT)

    assert (await asyncio.wait_for(seen.get(), timeout=60)).message.body == b"short"
    await connection.close()
