"""Links to a broker: what is left of one that ends, with TLS and without."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cronhare.adapters.rabbitmq import client, topology
from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import Address
from cronhare.adapters.rabbitmq.consumer import open_connection
from cronhare.adapters.rabbitmq.inspection import RabbitInspection
from cronhare.domain.nodes import CLOSING
from cronhare.domain.topology import MAIN_QUEUE, Topology
from cronhare.ports.broker import BrokerUnavailable, Delivery
from cronhare.ports.inspection import BrokerFacts, Link, Unreachable
from tests.integration import amqp
from tests.services.certificates import Certified, certified
from tests.services.finding import free_port, missing, wait_until
from tests.services.rabbitmq import Private, Server

pytestmark = pytest.mark.integration

QUEUE_DECLARE = b"\x00\x32\x00\x0a"
#: Seconds after which something hangs, however busy the machine.
SOON = 60.0

#: More than one connection for each kind of queue.
QUEUES = (MAIN_QUEUE, "cron_scheduler.reports", "cron_scheduler.mails")


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


async def test_all_subscriptions_are_closed_within_one_bound_and_their_messages_go_back(
    vhost: str,
) -> None:
    got = asyncio.Queue[Delivery]()
    async with amqp.linked(vhost) as (url, link):
        broker = AioPikaBroker(url, queues=QUEUES)
        for queue in QUEUES:
            await broker.consume([queue], prefetch=1, on_delivery=got.put_nowait)
        with amqp.channel(vhost) as plain:
            plain.basic_publish("", MAIN_QUEUE, b"{}")
        await asyncio.wait_for(got.get(), SOON)
        link.freeze()
        loop = asyncio.get_running_loop()
        before, began = asyncio.all_tasks(), loop.time()
        await broker.close()
        took = loop.time() - began
        left = {task for task in before if "aiormq" in repr(task)}
        await asyncio.wait(left or {asyncio.create_task(asyncio.sleep(0))}, timeout=SOON)
        link.thaw()
        await asyncio.to_thread(
            wait_until,
            lambda: amqp.depth(vhost, MAIN_QUEUE) == 1,
            seconds=SOON,
            what="the message to go back",
        )

    assert took < CLOSING
    assert all(task.done() for task in left)


NAME = "broker.test"
NOTHING = Topology(exchanges=(), queues=(), bindings=())


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("ca"), f"DNS:{NAME}")


@pytest.fixture(scope="module")
def secured(rabbitmq: Server, papers: Certified) -> int:
    """Let the broker speak TLS as well, and give the port where it does."""
    if not isinstance(rabbitmq, Private):
        missing("RabbitMQ with certificates of its own", "apt-get install rabbitmq-server")
    port = free_port()
    options = ", ".join(
        f'{{{name}, "{path}"}}'
        for name, path in (
            ("cacertfile", papers.ca),
            ("certfile", papers.certificate),
            ("keyfile", papers.key),
        )
    )
    start = f'rabbit_networking:start_ssl_listener({{"127.0.0.1", {port}}}, [{options}], 1)'
    rabbitmq.evaluate(start)
    return port


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names that are not of this machine lead to it."""
    real: Callable[..., Any] = socket.getaddrinfo

    def resolve(host: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the real one
        return real("127.0.0.1" if host.endswith(".test") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def amqps(port: int, host: str, ca: Path | None) -> str:
    return f"amqps://guest:guest@{host}:{port}/" + (f"?cafile={ca}" if ca else "")


def seen(url: str) -> Link | str:
    """Look as the doctor does: how we are connected, or why we are not."""
    facts = RabbitInspection(url).inspect(NOTHING)
    if isinstance(facts, Unreachable):
        return facts.said
    assert isinstance(facts, BrokerFacts)
    assert facts.link is not None
    return facts.link


def consuming(url: str) -> str:
    """Connect as a worker does, and tell the protocol, or why there is no connection."""

    async def connect() -> str:
        connection = await open_connection(Address.parse(url), name="tests")
        await connection.close()
        return "connected"

    try:
        return asyncio.run(connect())
    except BrokerUnavailable as error:
        return str(error)


def test_a_certificate_of_a_ca_that_is_named_is_verified(secured: int, papers: Certified) -> None:
    url = amqps(secured, NAME, papers.ca)

    link = seen(url)

    assert isinstance(link, Link), link
    assert link == Link(host=f"{NAME}:{secured}", local=False, tls=link.tls, verified=True)
    assert str(link.tls).startswith("TLSv1.")
    assert consuming(url) == "connected"


@pytest.mark.parametrize(
    ("host", "knows", "why"),
    [(NAME, False, "CERTIFICATE_VERIFY_FAILED"), ("impostor.test", True, "Hostname mismatch")],
)
def test_a_certificate_of_an_unknown_ca_or_for_another_host_is_refused(
    secured: int, papers: Certified, host: str, why: str, *, knows: bool
) -> None:
    url = amqps(secured, host, papers.ca if knows else None)

    assert why in str(seen(url))
    assert why in consuming(url)


def test_plain_text_is_told_with_where_it_goes(vhost: str) -> None:
    here = Address.parse(vhost).url.hosts[0]
    elsewhere = vhost.replace(str(here), f"{NAME}:{here.port}")

    assert seen(vhost) == Link(host=str(here), local=True, tls=None, verified=False)
    assert seen(elsewhere) == Link(
        host=f"{NAME}:{here.port}", local=False, tls=None, verified=False
    )
