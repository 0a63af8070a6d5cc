"""What every `AsyncBrokerPort` promises. An adapter joins by one more parameter of `bench`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial

import attrs
import pytest

from cronhare.adapters.memory.broker import MemoryBroker
from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.domain.topology import (
    MAIN_QUEUE,
    WAITING_QUEUE,
    Destination,
    ToQueue,
    ToWaiting,
)
from cronhare.ports.broker import (
    LARGEST_TAKEN,
    AsyncBrokerPort,
    Defect,
    Delivery,
    Envelope,
    Message,
    Published,
)
from tests.frozen_clock import FrozenClock
from tests.services.rabbitmq import Server

REPORTS = "cron_scheduler.reports"
RETRY_DELAY = timedelta(milliseconds=400)

#: How late a real broker may be, in seconds.
LATENESS = 0.2


class Hands:
    """Somebody who takes deliveries and settles nothing by himself."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[Delivery] = asyncio.Queue()
        self.take = self._seen.put_nowait

    async def next(self, *, within: float = 60.0) -> Delivery:
        """Wait for the next delivery, which must come."""
        return await asyncio.wait_for(self._seen.get(), timeout=within)

    async def body(self) -> bytes:
        """Wait for the next delivery's."""
        return (await self.next()).message.body

    async def bodies(self, count: int) -> list[bytes]:
        """Wait for so many deliveries."""
        return [await self.body() for _ in range(count)]

    def seen(self) -> list[bytes]:
        """Tell what came and was not asked for yet, without waiting."""
        return [self._seen.get_nowait().message.body for _ in range(self._seen.qsize())]


@attrs.frozen
class Bench:
    """A broker with no messages and the topology for two task queues, and its time.

    *connect* makes a connection; the bench closes them all. *elapse* lets at least that much of
    the broker's time pass, and whatever falls due in it, or is on its way, arrive.
    """

    connect: Callable[[], Awaitable[AsyncBrokerPort]]
    elapse: Callable[[timedelta], Awaitable[None]]

    async def quiet(self) -> None:
        """Let everything arrive that is on its way."""
        await self.elapse(timedelta(0))

    async def publish(self, *bodies: bytes, to: Destination | None = None) -> list[Published]:
        """Publish through a connection that does nothing else."""
        connection = await self.connect()
        messages = [Message(body=body) for body in bodies]
        return [await connection.publish(Envelope(one, to or ToQueue())) for one in messages]

    async def consumer(self, *queues: str, prefetch: int = 10) -> tuple[AsyncBrokerPort, Hands]:
        """Consume through a connection of its own."""
        connection, hands = await self.connect(), Hands()
        await connection.consume(queues or (MAIN_QUEUE,), prefetch=prefetch, on_delivery=hands.take)
        return connection, hands


@pytest.fixture(
    params=[
        "memory",
        pytest.param("quorum", marks=pytest.mark.integration),
        pytest.param("classic", marks=pytest.mark.integration),
    ]
)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    connections: list[AsyncBrokerPort] = []
    queues = [MAIN_QUEUE, REPORTS]
    make: Callable[[], AsyncBrokerPort]
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            clock = FrozenClock(datetime(2026, 3, 28, 12, 0, 0, 700_000, tzinfo=UTC))
            make = MemoryBroker(clock, retry_delay=RETRY_DELAY, queues=queues).connect
        else:
            server: Server = request.getfixturevalue("rabbitmq")
            url = stack.enter_context(server.vhost())
            options = {"retry_delay": RETRY_DELAY, "queues": queues, "queue_type": request.param}
            make = partial(AioPikaBroker, url, **options)

        async def connect() -> AsyncBrokerPort:
            connections.append(make())
            return connections[-1]

        async def elapse(duration: timedelta) -> None:
            if request.param == "memory":
                clock.advance(duration)
                await asyncio.sleep(0)  # the loop hands over what was called for before this
            else:
                await asyncio.sleep(duration.total_seconds() + LATENESS)

        yield Bench(connect, elapse)
        for connection in connections:
            await connection.close()


async def test_a_published_message_arrives_with_its_headers_and_its_id(bench: Bench) -> None:
    message = Message(body=bytes(range(256)), headers={"cron-attempt": 2}, id="17:2")
    connection, hands = await bench.consumer()

    answer = await connection.publish(Envelope(message, ToQueue()))

    delivery = await hands.next()
    assert answer is Published.CONFIRMED
    assert delivery.message == message
    assert (delivery.queue, delivery.redelivered) == (MAIN_QUEUE, False)


async def test_of_a_body_larger_than_any_that_is_read_the_beginning_is_delivered_and_said_so(
    bench: Bench,
) -> None:
    _, hands = await bench.consumer()

    await bench.publish(b"x" * LARGEST_TAKEN, b"x" * (LARGEST_TAKEN + 1), b"small")

    deliveries = [await hands.next() for _ in range(3)]
    assert [len(one.message.body) for one in deliveries] == [LARGEST_TAKEN, LARGEST_TAKEN, 5]
    reason = f"the body has {LARGEST_TAKEN + 1} bytes, {LARGEST_TAKEN} are allowed"
    cut = Defect(reason=reason, size=LARGEST_TAKEN + 1)
    assert [one.defect for one in deliveries] == [None, cut, None]


async def test_nobody_gets_more_than_the_prefetch_before_settling(bench: Bench) -> None:
    await bench.publish(b"one", b"two", b"three", b"four")
    connection, hands = await bench.consumer(prefetch=2)
    first, second = await hands.next(), await hands.next()

    await bench.quiet()
    before = hands.seen()
    await connection.ack(second)

    assert before == []
    assert (await hands.next()).message.body == b"three"
    await bench.quiet()
    assert hands.seen() == []
    await connection.nack(first)
    assert (await hands.next()).message.body == b"four"


async def test_the_prefetch_counts_over_all_queues_of_a_consumer(bench: Bench) -> None:
    await bench.publish(b"task", b"task")
    await bench.publish(b"report", b"report", to=ToQueue(REPORTS))

    connection, hands = await bench.consumer(MAIN_QUEUE, REPORTS, prefetch=1)

    bodies = []
    for _ in range(4):
        delivery = await hands.next()
        await bench.quiet()
        assert hands.seen() == []
        bodies.append((delivery.queue, delivery.message.body))
        await connection.ack(delivery)
    assert sorted(bodies) == [
        (MAIN_QUEUE, b"task"),
        (MAIN_QUEUE, b"task"),
        (REPORTS, b"report"),
        (REPORTS, b"report"),
    ]


@pytest.mark.parametrize(("weights", "mains"), [({}, 4), ({REPORTS: 3}, 2), ({MAIN_QUEUE: 7}, 7)])
async def test_busy_queues_are_served_by_their_weights(
    bench: Bench, weights: Mapping[str, int], mains: int
) -> None:
    expected = {MAIN_QUEUE: mains, REPORTS: 8 - mains}
    for pause in (0.05, 0.4, 3.0):  # a share is due to a queue whose next message is at hand
        served = await shares_of_eight(bench, weights, pause)
        if served == expected:
            break
    assert served == expected


async def shares_of_eight(
    bench: Bench, weights: Mapping[str, int], pause: float
) -> Mapping[str, int]:
    """Serve eight of two busy queues, each for so many seconds: the next comes meanwhile."""
    await bench.publish(*[b"task"] * 9)
    await bench.publish(*[b"report"] * 9, to=ToQueue(REPORTS))
    connection, hands = await bench.connect(), Hands()

    queues = (MAIN_QUEUE, REPORTS)
    await connection.consume(queues, prefetch=1, on_delivery=hands.take, weights=weights)

    served = Counter[str]()
    await bench.quiet()  # both queues have arrived
    for _ in range(8):
        delivery = await hands.next()
        await asyncio.sleep(pause)
        served[delivery.queue] += 1
        await connection.ack(delivery)
    await connection.close()
    return served


async def test_two_consumers_of_one_connection_have_each_a_prefetch_of_its_own(
    bench: Bench,
) -> None:
    connection, tasks = await bench.consumer(MAIN_QUEUE, prefetch=1)
    waiting = Hands()
    await connection.consume([WAITING_QUEUE], prefetch=2, on_delivery=waiting.take)
    await bench.publish(b"1", b"2")
    await bench.publish(b"3", b"4", b"5", to=ToWaiting())

    assert await tasks.bodies(1) == [b"1"]
    assert await waiting.bodies(2) == [b"3", b"4"]
    await bench.quiet()
    assert tasks.seen() == waiting.seen() == []


async def test_a_nacked_message_comes_back_after_the_retry_delay_with_its_deaths(
    bench: Bench,
) -> None:
    await bench.publish(b"again")
    connection, hands = await bench.consumer()

    await connection.nack(await hands.next())
    early = hands.seen()
    await bench.elapse(RETRY_DELAY)

    again = await hands.next()
    deaths = again.message.headers["x-death"]
    assert isinstance(deaths, list)
    assert early == []
    assert [(death["reason"], death["count"]) for death in deaths] == [
        ("expired", 1),
        ("rejected", 1),
    ]


async def test_a_paused_consumer_settles_what_it_has_and_leaves_the_rest_to_the_others(
    bench: Bench,
) -> None:
    await bench.publish(b"done", b"back", b"rest")
    connection, hands = await bench.consumer(prefetch=2)
    done, back = await hands.next(), await hands.next()
    assert (connection.is_consuming(), [*connection.left_out()]) == (True, [])

    await connection.pause()
    await connection.ack(done)
    await connection.nack(back, requeue=True)

    _, other = await bench.consumer()
    others = [await other.next() for _ in range(2)]
    assert sorted((one.message.body, one.redelivered) for one in others) == [
        (b"back", True),
        (b"rest", False),
    ]
    await bench.quiet()
    assert other.seen() == hands.seen() == []
    assert not connection.is_consuming()


async def test_a_queue_apart_has_a_place_of_its_own_until_it_is_left(bench: Bench) -> None:
    connection, hands = await bench.consumer(prefetch=1)
    apart = Hands()
    for _ in range(2):
        await connection.consume_apart(REPORTS, on_delivery=apart.take)
    await bench.publish(b"one", b"two")
    await bench.publish(b"apart", to=ToQueue(REPORTS))

    [first, own] = [await hands.next(), await apart.next()]
    assert (first.message.body, own.message.body) == (b"one", b"apart")
    assert connection.is_consuming()
    left = asyncio.ensure_future(connection.leave(REPORTS))
    await connection.ack(own)
    await left
    await connection.ack(first)
    await bench.publish(b"after", to=ToQueue(REPORTS))

    assert (await hands.next()).message.body == b"two"
    await bench.quiet()
    assert apart.seen() == []
    await connection.consume_apart(REPORTS, on_delivery=apart.take)
    assert await apart.bodies(1) == [b"after"]


async def test_a_queue_that_was_left_while_it_was_paused_does_not_resume(bench: Bench) -> None:
    connection, hands = await bench.consumer()
    apart = Hands()
    await connection.consume_apart(REPORTS, on_delivery=apart.take)
    await connection.pause()

    await connection.leave(REPORTS)
    await connection.resume()

    await bench.publish(b"apart", to=ToQueue(REPORTS))
    await bench.publish(b"one")
    assert await hands.bodies(1) == [b"one"]
    await bench.quiet()
    assert apart.seen() == []


@pytest.mark.parametrize("times", [1, 2])
async def test_who_is_paused_while_it_begins_to_consume_gets_nothing_until_it_resumes(
    bench: Bench, times: int
) -> None:
    connection, hands = await bench.connect(), Hands()
    consume = connection.consume([MAIN_QUEUE], prefetch=1, on_delivery=hands.take)
    beginning = asyncio.create_task(consume)
    await asyncio.sleep(0)
    for _ in range(times - 1):
        await connection.pause()
        await connection.resume()
    await connection.pause()
    await beginning

    await bench.publish(b"one")
    await bench.quiet()
    paused = hands.seen(), connection.is_consuming()
    await connection.resume()

    assert paused == ([], False)
    assert await hands.bodies(1) == [b"one"]
    await bench.quiet()
    assert hands.seen() == []


async def test_a_consumer_that_resumes_counts_what_it_still_has_in_hand(bench: Bench) -> None:
    await bench.publish(b"one", b"two")
    connection, hands = await bench.consumer(prefetch=1)
    one = await hands.next()

    for _ in range(2):
        await connection.pause()
        await connection.resume()
    await connection.resume()
    await bench.quiet()

    assert hands.seen() == []
    await connection.ack(one)
    assert await hands.bodies(1) == [b"two"]
    assert connection.is_consuming()


async def test_what_a_closed_consumer_had_comes_first_and_redelivered_to_the_next(
    bench: Bench,
) -> None:
    await bench.publish(b"one", b"two", b"three")
    connection, hands = await bench.consumer(prefetch=2)
    one, two = await hands.next(), await hands.next()

    await connection.close()
    await connection.ack(one)  # which is harmless, as all of this
    await connection.nack(two)
    await connection.close()
    answer = await connection.publish(Envelope(Message(body=b"late"), ToQueue()))

    _, other = await bench.consumer()
    again = [await other.next() for _ in range(3)]
    assert (answer, connection.is_consuming()) == (Published.UNKNOWN, False)
    assert [(each.message.body, each.redelivered) for each in again] == [
        (b"one", True),
        (b"two", True),
        (b"three", False),
    ]
