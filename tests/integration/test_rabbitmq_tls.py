"""Links to a broker with and without TLS, as clients on another machine see them."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cronhare.adapters.rabbitmq.client import Address
from cronhare.adapters.rabbitmq.consumer import open_connection
from cronhare.adapters.rabbitmq.inspection import RabbitInspection
from cronhare.domain.topology import Topology
from cronhare.ports.broker import BrokerUnavailable
from cronhare.ports.inspection import BrokerFacts, Link, Unreachable
from tests.services.certificates import Certified, certified
from tests.services.finding import free_port, missing
from tests.services.rabbitmq import Private, Server

pytestmark = pytest.mark.integration

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


def test_a_certificate_of_a_ca_that_nobody_knows_is_refused(secured: int) -> None:
    url = amqps(secured, NAME, None)

    assert "CERTIFICATE_VERIFY_FAILED" in str(seen(url))
    assert "CERTIFICATE_VERIFY_FAILED" in consuming(url)


def test_a_certificate_for_another_host_is_refused(secured: int, papers: Certified) -> None:
    url = amqps(secured, "impostor.test", papers.ca)

    assert "Hostname mismatch" in str(seen(url))
    assert "Hostname mismatch" in consuming(url)


def test_plain_text_is_told_with_where_it_goes(vhost: str) -> None:
    here = Address.parse(vhost).url.hosts[0]
    elsewhere = vhost.replace(str(here), f"{NAME}:{here.port}")

    assert seen(vhost) == Link(host=str(here), local=True, tls=None, verified=False)
    assert seen(elsewhere) == Link(
        host=f"{NAME}:{here.port}", local=False, tls=None, verified=False
    )
