"""What an operator, or a program that knows nothing of us, does with a broker."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import Address, connect
from tests.services.proxy import Link, proxy
from tests.services.rabbitmq import Server


@asynccontextmanager
async def linked(url: str) -> AsyncIterator[tuple[str, Link]]:
    """Lead to a broker through a link that can be frozen or cut, and give the URL to it."""
    port = urlsplit(url).port
    assert port is not None
    async with proxy(port) as (own_port, link):
        yield url.replace(str(port), str(own_port)), link


@contextmanager
def channel(url: str) -> Iterator[BlockingChannel]:
    """Open a plain channel, at any of the nodes that the URL names."""
    connection = connect(Address.parse(url), name="a test")
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def delivery_modes(url: str, *queues: str) -> list[int | None]:
    """Take a message out of each queue, and tell whether it is kept on disk: 2 if it is."""
    modes: list[int | None] = []
    with channel(url) as plain:
        for queue in queues:
            _, properties, _ = plain.basic_get(queue, auto_ack=True)
            modes.append(None if properties is None else properties.delivery_mode)
    return modes


@contextmanager
def full(url: str, queue: str, server: Server) -> Iterator[None]:
    """Have a queue refuse whatever is published to it, by a policy."""
    where = ("--vhost", urlsplit(url).path[1:])
    bound = '{"max-length": 0, "overflow": "reject-publish"}'
    server.control("set_policy", *where, "full", f"^{queue}$", bound, "--apply-to", "queues")
    with channel(url) as plain:
        plain.confirm_delivery()
        while _takes(plain, queue):  # a policy takes its time
            pass
    try:
        yield
    finally:
        server.control("clear_policy", *where, "full")


def quorum_by_default(url: str, server: Server) -> str:
    """Make a virtual host whose default queue type is quorum, and give its URL."""
    url += "-quorum"
    name = urlsplit(url).path[1:]
    server.control("add_vhost", name, "--default-queue-type", "quorum")
    server.control("set_permissions", "--vhost", name, "guest", ".*", ".*", ".*")
    return url


@contextmanager
def leaderless(url: str, queue: str, server: Server) -> Iterator[None]:
    """Have a quorum queue that is there fail over each consumer: it has no leader."""
    member = f"{{'{urlsplit(url).path[1:]}_{queue}', node()}}"
    server.evaluate(f"ok = ra:stop_server(quorum_queues, {member})")
    try:
        yield
    finally:
        server.evaluate(f"ok = ra:restart_server(quorum_queues, {member})")


def _takes(plain: BlockingChannel, queue: str) -> bool:
    try:
        plain.basic_publish("", queue, b"filling")
    except NackError:
        return False
    return True


def depth(url: str, queue: str) -> int:
    """Count the messages that wait in a queue."""
    with channel(url) as plain:
        return int(plain.queue_declare(queue, passive=True).method.message_count)


def consumers(url: str, queue: str) -> int:
    """Count the consumers of a queue."""
    with channel(url) as plain:
        return int(plain.queue_declare(queue, passive=True).method.consumer_count)


def drain(url: str, queue: str) -> list[bytes]:
    """Take all that waits in a queue, for good."""
    bodies: list[bytes] = []
    with channel(url) as plain:
        while True:
            _, _, body = plain.basic_get(queue, auto_ack=True)
            if body is None:
                return bodies
            bodies.append(body)


def declare(url: str, **options: Any) -> None:  # noqa: ANN401 - as `PikaBroker` takes them
    """Declare what a process of ours needs."""
    with closing(PikaBroker(url, **options)) as broker:
        broker.declare([])
