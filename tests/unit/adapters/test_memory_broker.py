"""What the in-memory broker does beyond what its ports promise: time, threads, loops."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.topology import LANE_UNIT, MAIN_QUEUE, RETRY_QUEUE, ToQueue
from cronhare.ports.broker import BrokerPort, Delivery, Envelope, Message, Published
from tests.frozen_clock import FrozenClock
from tests.ports import ReadableBroker
from tests.trial_broker import TrialBroker

START = datetime(2026, 3, 28, 12, 0, 0, 700_000, tzinfo=UTC)
RETRY_DELAY = timedelta(seconds=30)
A_DAY = timedelta(days=1)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


@pytest.fixture
def broker(clock: FrozenClock) -> TrialBroker:
    return TrialBroker(clock, retry_delay=RETRY_DELAY)


@pytest.fixture
def seen() -> asyncio.Queue[Delivery]:
    return asyncio.Queue()


def _publish(
    broker: BrokerPort, body: bytes = b"task", *, delay: timedelta = timedelta(0)
) -> Published:
    (answer,) = broker.publish([Envelope(Message(body=body), ToQueue(delay=delay))])
    return answer


def _receive(broker: ReadableBroker) -> Delivery:
    delivery = broker.receive(MAIN_QUEUE)
    assert delivery is not None
    return delivery


@given(st.integers(1, 2**16 - 1))
def test_every_delay_ends_to_the_microsecond(units: int) -> None:
    clock = FrozenClock(START)
    broker = TrialBroker(clock)
    _publish(broker, delay=LANE_UNIT * units)

    clock.advance(LANE_UNIT * units - timedelta(microseconds=1))
    early = broker.depth(MAIN_QUEUE)
    clock.advance(timedelta(microseconds=1))

    assert (early, broker.depth(MAIN_QUEUE)) == (0, 1)


def test_a_clock_that_is_set_back_holds_nothing_up(broker: TrialBroker, clock: FrozenClock) -> None:
    _publish(broker, delay=timedelta(seconds=30))

    clock.move_to(START - A_DAY)
    clock.advance(timedelta(seconds=30))

    assert broker.depth(MAIN_QUEUE) == 1


def test_messages_of_a_queue_expire_in_order_each_at_its_own_time(
    broker: TrialBroker, clock: FrozenClock
) -> None:
    for body in (b"one", b"two", b"three"):
        _publish(broker, body)
        broker.nack(_receive(broker))
        clock.advance(timedelta(seconds=10))

    clock.advance(timedelta(seconds=10))

    assert broker.depth(RETRY_QUEUE) == 1
    assert [_receive(broker).message.body for _ in range(2)] == [b"one", b"two"]


async def test_consuming_declares_a_queue_that_nobody_declared(
    broker: TrialBroker, seen: asyncio.Queue[Delivery]
) -> None:
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
    broker: TrialBroker, seen: asyncio.Queue[Delivery]
) -> None:
    connection = broker.connect()
    await connection.consume([MAIN_QUEUE], prefetch=7, on_delivery=seen.put_nowait)

    def publish(thread: int) -> None:
        for batch in range(25):
            bodies = (b"%d-%d-%d" % (thread, batch, n) for n in range(20))
            broker.publish([Envelope(Message(body=body), ToQueue()) for body in bodies])

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    bodies = set[bytes]()
    for _ in range(2000):
        delivery = await asyncio.wait_for(seen.get(), timeout=60)
        bodies.add(delivery.message.body)
        await connection.ack(delivery)
    for thread in threads:
        thread.join()

    assert len(bodies) == 2000
    assert seen.empty()
    assert broker.depth(MAIN_QUEUE) == 0
    await connection.close()


async def test_on_the_machines_clock_a_delay_ends_by_itself_and_overtakes_the_timer_of_a_longer_one(
    seen: asyncio.Queue[Delivery],
) -> None:
    clock = SystemClock()
    broker = TrialBroker(clock)
    connection = broker.connect()
    await connection.consume([MAIN_QUEUE], prefetch=2, on_delivery=seen.put_nowait)
    _publish(broker, b"long", delay=timedelta(seconds=1638.4))
    await asyncio.sleep(0)  # the timer of the long one is set

    began = clock.monotonic()
    # From another thread, by two lanes with a timer each.
    await asyncio.to_thread(_publish, broker, b"short", delay=LANE_UNIT * 3)

    assert (await asyncio.wait_for(seen.get(), timeout=60)).message.body == b"short"
    assert clock.monotonic() - began >= LANE_UNIT.total_seconds() * 3
    await connection.close()
