"""What the worker does with a broker all the time, three ways: aio-pika, beneath it, and ours."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import attrs
from aio_pika import Message as AioPikaMessage
from aio_pika.abc import AbstractIncomingMessage
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.adapters.rabbitmq.connection.address import Address
from cronhare.adapters.rabbitmq.connection.async_connection import (
    FramedConnection,
    close_connection,
    open_connection,
)
from cronhare.adapters.rabbitmq.consumer.guarding import GuardedConnection
from cronhare.domain.topology import MAIN_QUEUE, ToQueue
from cronhare.ports.broker import Delivery, Envelope, Message

BODY = bytes(512)
HEADERS = {"cron-execution": 123_456, "cron-attempt": 1, "cron-deaths": 0}


@attrs.frozen
class Cost:
    """What so many messages took: seconds, and seconds of this process's CPU."""

    seconds: float
    cpu: float


@attrs.frozen
class Task:
    """*many* deliveries to ack or publishes to confirm; *at_once* is the prefetch, or so many."""

    url: str
    many: int
    at_once: int


#: Does a task and tells its cost, without what it takes to connect.
Way = Callable[[Task], Coroutine[Any, Any, Cost]]


class Meter:
    """Measures from its making until the last of *many*."""

    def __init__(self, many: int) -> None:
        self._left = many
        self._done = asyncio.Event()
        self._began = time.perf_counter(), time.process_time()

    def count(self) -> None:
        """One is done."""
        self._left -= 1
        if not self._left:
            self._done.set()

    async def cost(self) -> Cost:
        """Wait for the last one."""
        await self._done.wait()
        began, cpu_before = self._began
        return Cost(time.perf_counter() - began, time.process_time() - cpu_before)


def envelope(number: int) -> Envelope:
    """Make a message as large as those of ours."""
    return Envelope(Message(body=BODY, headers=HEADERS, id=f"message-{number}"), ToQueue())


async def consume_by_aio_pika(task: Task) -> Cost:
    """`Queue.consume` and `IncomingMessage.ack`."""
    connection = await open_connection(Address.parse(task.url), name="a", kind=GuardedConnection)
    channel = await connection.channel(publisher_confirms=False)
    await channel.set_qos(prefetch_count=task.at_once)
    queue = await channel.get_queue(MAIN_QUEUE)

    async def take(message: AbstractIncomingMessage) -> None:
        await message.ack()
        meter.count()

    meter = Meter(task.many)
    await queue.consume(take)
    cost = await meter.cost()
    await close_connection(connection)
    return cost


async def consume_beneath(task: Task) -> Cost:
    """The same on the channel beneath, without waiting until an ack is on its way."""
    connection = await open_connection(Address.parse(task.url), name="b", kind=GuardedConnection)
    channel = await connection.channel(publisher_confirms=False)
    await channel.set_qos(prefetch_count=task.at_once)
    underlay = await channel.get_underlay_channel()

    async def take(message: DeliveredMessage) -> None:
        await underlay.basic_ack(message.delivery_tag or 0, wait=False)
        meter.count()

    meter = Meter(task.many)
    await underlay.basic_consume(MAIN_QUEUE, take)
    cost = await meter.cost()
    await close_connection(connection)
    return cost


async def consume_by_ours(task: Task) -> Cost:
    """The adapter, which counts what is in hand, decodes, and proves that it lives."""
    broker = AioPikaBroker(task.url)
    await broker.connect()
    deliveries = asyncio.Queue[Delivery]()
    meter = Meter(task.many)
    await broker.consume([MAIN_QUEUE], prefetch=task.at_once, on_delivery=deliveries.put_nowait)
    for _ in range(task.many):
        await broker.ack(await deliveries.get())
        meter.count()
    cost = await meter.cost()
    await broker.close()
    return cost


async def publish_by_aio_pika(task: Task) -> Cost:
    """`Exchange.publish`."""
    connection = await open_connection(Address.parse(task.url), name="a", kind=FramedConnection)
    channel = await connection.channel(on_return_raises=True)

    async def publish(number: int) -> None:
        message = AioPikaMessage(
            BODY, headers=dict(HEADERS), delivery_mode=2, message_id=f"message-{number}"
        )
        await channel.default_exchange.publish(message, MAIN_QUEUE, mandatory=True)

    cost = await _published(task, publish)
    await close_connection(connection)
    return cost


async def publish_beneath(task: Task) -> Cost:
    """The same on the channel beneath."""
    connection = await open_connection(Address.parse(task.url), name="b", kind=FramedConnection)
    channel = await connection.channel(on_return_raises=True)
    underlay = await channel.get_underlay_channel()

    async def publish(number: int) -> None:
        properties = Basic.Properties(
            headers=dict(HEADERS), delivery_mode=2, message_id=f"message-{number}"
        )
        await underlay.basic_publish(
            BODY, routing_key=MAIN_QUEUE, mandatory=True, properties=properties
        )

    cost = await _published(task, publish)
    await close_connection(connection)
    return cost


async def publish_by_ours(task: Task) -> Cost:
    """The adapter, which checks and bounds each."""
    broker = AioPikaBroker(task.url)
    await broker.connect()
    await broker.publish(envelope(0))  # connects

    async def publish(number: int) -> None:
        await broker.publish(envelope(number))

    cost = await _published(task, publish)
    await broker.close()
    return cost


async def _published(task: Task, publish: Callable[[int], Awaitable[None]]) -> Cost:
    numbers = iter(range(task.many))

    async def go_on() -> None:
        for number in numbers:
            await publish(number)
            meter.count()

    meter = Meter(task.many)
    await asyncio.gather(*(go_on() for _ in range(task.at_once)))
    return await meter.cost()


CONSUMING: dict[str, Way] = {
    "aio-pika": consume_by_aio_pika,
    "beneath": consume_beneath,
    "cronhare": consume_by_ours,
}
PUBLISHING: dict[str, Way] = {
    "aio-pika": publish_by_aio_pika,
    "beneath": publish_beneath,
    "cronhare": publish_by_ours,
}
