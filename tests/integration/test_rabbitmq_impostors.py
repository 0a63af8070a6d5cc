"""Nodes that are none: host names that cannot be encoded, and servers that are no broker."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.connection.address import Address
from cronhare.adapters.rabbitmq.connection.async_connection import (
    FramedConnection,
    close_connection,
    open_as,
    open_connection,
)
from cronhare.adapters.rabbitmq.consumer.deliveries import DeliveringConnection
from cronhare.adapters.rabbitmq.topology.inspection import RabbitInspection
from cronhare.adapters.rabbitmq.wire.frames import LARGEST_FRAME
from cronhare.domain.diagnosis.broker import BrokerFacts
from cronhare.domain.diagnosis.servers import Cause, Unreachable
from cronhare.domain.topology import MAIN_QUEUE, ToQueue, topology
from cronhare.ports.broker import BrokerUnavailable, Delivery, Envelope, Message, Published
from tests.integration import amqp
from tests.services.finding import wait_until
from tests.services.frames import long, short, table

pytestmark = pytest.mark.integration

#: The settings refuse a name with an empty part; a resolver may have further rules.
UNASKABLE = "unaskable.example"

ENVELOPE = Envelope(Message(body=b"one"), ToQueue())
BASIC_CONSUME = b"\x00\x3c\x00\x14"
OURS = topology(retry_delay=timedelta(seconds=30))
MIB = 1024 * 1024
SOON = 60.0


@pytest.fixture
def unaskable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a name fail as Python lets one that it cannot encode; nodes are tried as they stand."""
    ask = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401
        return ask("h..x" if host == UNASKABLE else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(Address, "nodes", lambda self: list(self.url.hosts))


def faults_of_ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give what was said with a stack; the clients' own loggers are not heard."""
    said = [record for record in caplog.records if record.name.startswith("cronhare.")]
    return [record.getMessage() for record in said if record.exc_info]


def beside(url: str) -> str:
    """Name the unaskable node before the broker."""
    return url.replace("@", f"@{UNASKABLE},", 1)


@pytest.mark.usefixtures("unaskable")
async def test_a_name_that_cannot_be_asked_for_leaves_the_worker_its_other_nodes(
    vhost: str,
) -> None:
    seen: asyncio.Queue[Delivery] = asyncio.Queue()
    broker = AioPikaBroker(beside(vhost))
    try:
        await broker.connect()
        await broker.consume([MAIN_QUEUE], prefetch=1, on_delivery=seen.put_nowait)
        assert await broker.publish(ENVELOPE) is Published.CONFIRMED
        delivery = await asyncio.wait_for(seen.get(), SOON)
    finally:
        await broker.close()

    assert delivery.message.body == b"one"


@pytest.mark.usefixtures("unaskable")
def test_a_name_that_cannot_be_asked_for_leaves_the_scheduler_its_other_nodes(
    vhost: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = PikaBroker(beside(vhost))
    try:
        assert broker.publish([ENVELOPE]) == [Published.CONFIRMED]
    finally:
        broker.close()

    assert not faults_of_ours(caplog)


@pytest.mark.usefixtures("unaskable")
async def test_a_name_that_cannot_be_asked_for_is_a_broker_that_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = f"amqp://guest:guest@{UNASKABLE}/"
    expected = "nobody answers (its name cannot be asked for"
    asynchronous = AioPikaBroker(url)
    synchronous = PikaBroker(url)

    with pytest.raises(BrokerUnavailable) as unconnected:
        await asynchronous.connect()
    with pytest.raises(BrokerUnavailable) as unopened:
        await open_connection(Address.parse(url), name="tests")
    published = await asyncio.to_thread(synchronous.publish, [ENVELOPE])
    examined = RabbitInspection(url, queue_type="quorum", deduplication=False).inspect(OURS)
    await asyncio.to_thread(synchronous.close)

    assert expected in str(unconnected.value)
    assert expected in str(unopened.value)
    assert published == [Published.UNKNOWN]
    assert isinstance(examined, Unreachable)
    assert examined.cause is Cause.ABSENT
    assert not faults_of_ours(caplog)


@pytest.mark.usefixtures("unaskable")
def test_the_doctor_names_the_node_that_cannot_be_asked_for(vhost: str) -> None:
    facts = RabbitInspection(beside(vhost), queue_type="quorum", deduplication=False).inspect(OURS)

    assert isinstance(facts, BrokerFacts)
    [absent] = facts.absent
    assert absent.startswith(f"{UNASKABLE}:5672: its name cannot be asked for")


class Impostor:
    """Opens a connection as a broker does, then announces a frame of 4 GiB and sends zeros."""

    def __init__(self) -> None:
        self.agreed = 0
        self.sent = 0
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._open(reader, writer)
            writer.write(struct.pack(">BHI", 3, 1, 2**32 - 1))
            while self.sent < 64 * MIB:
                writer.write(bytes(MIB))
                await writer.drain()
                self.sent += MIB
        except OSError:
            pass  # it hung up
        finally:
            self.gone.set()
            writer.close()

    async def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(method: bytes, arguments: bytes) -> None:
            payload = method + arguments
            writer.write(struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce")

        await reader.readexactly(8)
        say(b"\0\x0a\0\x0a", b"\0\x09" + table() + long(b"PLAIN") + long(b"en_US"))
        await _payload(reader)
        say(b"\0\x0a\0\x1e", struct.pack(">HIH", 2047, 2**32 - 1, 60))
        _, _, self.agreed, _ = struct.unpack(">4sHIH", await _payload(reader))
        await _payload(reader)
        say(b"\0\x0a\0\x29", short(b""))


async def _payload(reader: asyncio.StreamReader) -> bytes:
    _, _, size = struct.unpack(">BHI", await reader.readexactly(7))
    return (await reader.readexactly(size + 1))[:-1]


@asynccontextmanager
async def impostor() -> AsyncIterator[tuple[str, Impostor]]:
    acting = Impostor()
    server = await asyncio.start_server(acting.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"amqp://guest:guest@127.0.0.1:{port}/", acting


@pytest.mark.parametrize(
    "kind", [FramedConnection, DeliveringConnection], ids=["publishing", "consuming"]
)
async def test_a_frame_that_nobody_agreed_to_ends_the_connection_and_fills_no_memory(
    kind: type[FramedConnection],
) -> None:
    async with impostor() as (url, acting):
        connection = await open_as(kind, Address.parse(url), name="tests")
        await asyncio.wait_for(acting.gone.wait(), SOON)
        await close_connection(connection)

    assert acting.agreed == LARGEST_FRAME
    assert acting.sent < 64 * MIB  # some are in the buffers of the sockets


async def test_to_close_while_the_broker_owes_the_answer_to_consume_is_no_fault(
    vhost: str,
) -> None:
    async with amqp.linked(vhost) as (url, link):
        broker = AioPikaBroker(url)
        await broker.connect()
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
