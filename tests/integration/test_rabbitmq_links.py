"""What aio-pika's connections and channels leave behind: nothing, however they end."""

import asyncio
import time

import pytest

from cronhare.adapters.rabbitmq import client, consumer, topology
from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import Address
from cronhare.adapters.rabbitmq.consumer import open_connection
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.broker import BrokerUnavailable
from tests.integration import amqp
from tests.services.finding import wait_until

pytestmark = pytest.mark.integration

QUEUE_DECLARE = b"\x00\x32\x00\x0a"
BASIC_CONSUME = b"\x00\x3c\x00\x14"

#: Seconds after which something hangs, however busy the machine.
SOON = 60.0


async def test_who_answers_no_good_bye_is_hung_up_on(
    vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "FAREWELL", 0.3)
    async with amqp.linked(vhost) as (url, link):
        address = Address.parse(url)
        connection = await open_connection(address, name="tests")
        before = asyncio.all_tasks()
        link.freeze()
        began = time.monotonic()
        await connection.close()
        took = time.monotonic() - began
        link.thaw()

    assert took < 1.5
    assert connection.is_closed
    assert not {task for task in before if "aiormq" in repr(task) and not task.done()}


async def test_a_connection_that_is_given_up_while_it_opens_is_let_go_of() -> None:
    gone = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        opening = asyncio.create_task(
            open_connection(Address.parse(f"amqp://127.0.0.1:{port}/"), name="tests")
        )
        await asyncio.sleep(0.2)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

        await asyncio.wait_for(gone.wait(), 5)


async def test_a_declaration_that_is_not_answered_is_given_up(
    vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr(client, "FAREWELL", 0.3)
    async with amqp.linked(vhost) as (url, link):
        broker = PikaBroker(url)
        link.freezes_at = QUEUE_DECLARE

        with pytest.raises(BrokerUnavailable, match="declaring at"):
            await asyncio.wait_for(asyncio.to_thread(broker.declare, []), 10)
        broker.close()


async def test_to_close_while_the_broker_owes_the_answer_to_consume_is_no_fault(
    vhost: str,
) -> None:
    async with amqp.linked(vhost) as (url, link):
        broker = AioPikaBroker(url)
        amqp.declare(vhost)
        link.freezes_at = BASIC_CONSUME

        consuming = asyncio.create_task(
            broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=lambda _: None)
        )
        await asyncio.to_thread(
            wait_until, lambda: link.held_back > 0, seconds=SOON, what="the question"
        )
        await asyncio.wait_for(broker.close(), SOON)
        with pytest.raises(BrokerUnavailable):
            await asyncio.wait_for(consuming, SOON)
